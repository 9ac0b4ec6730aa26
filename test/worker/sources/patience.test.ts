/** How long what passes is tried again, and what is said of it meanwhile. */
import { describe, expect, test } from '@jest/globals'
import type { CodeHost } from '../../../core/ports.ts'
import { type Answer, no, yes } from '../../../core/refusal.ts'
import type { Job } from '../../../protocol/frames.ts'
import { sayOnce } from '../../../worker/sources/follow-up-talk.ts'
import { fetching, patiently, publishing, type Tried } from '../../../worker/sources/patience.ts'
import { publish } from '../../../worker/sources/publish.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { aJob, got, refusalOf } from './ground.ts'

const MINUTE_MS = 60_000
const AWAY = 'the code host could not be reached'
const chance = { fraction: () => 0.5 }

/** Away for so long, by the clock. */
function outage(clock: ManualClock, minutes: number) {
  let asked = 0
  const isOver = () => clock.monotonic() >= minutes * MINUTE_MS
  const attempt = async (): Promise<Tried<string>> => {
    asked += 1
    return isOver() ? { answer: yes('done'), passes: false } : { answer: no('failed', AWAY), passes: true }
  }
  return { attempt, isOver, asked: () => asked }
}

describe('an outage', () => {
  test('of some minutes is outlasted, and whoever looks is told once why', async () => {
    const clock = new ManualClock()
    const { attempt, asked } = outage(clock, 5)
    const told: string[] = []
    const done = patiently(
      { clock, chance },
      undefined,
      attempt,
      publishing((line) => told.push(line)),
    )
    await clock.advance(6 * MINUTE_MS)
    expect(got(await done)).toBe('done')
    expect(told).toEqual([`${AWAY}; trying again for up to 10 minutes`, 'it worked after 5 minutes'])
    expect(asked()).toBeLessThan(30)
  })

  test.each([
    ['publishing', publishing, 10],
    ['fetching', fetching, 3],
  ] as const)(
    'that does not end is given up when %s, and the reason says after how long',
    async (_, endure, minutes) => {
      const clock = new ManualClock()
      const { attempt, asked } = outage(clock, 60)
      const refused = patiently({ clock, chance }, undefined, attempt, endure())
      await clock.advance((minutes + 1) * MINUTE_MS)
      expect(refusalOf(await refused)).toBe(`failed: ${AWAY} (tried for ${minutes} minutes)`)
      const before = asked()
      await clock.advance(60 * MINUTE_MS)
      expect(asked()).toBe(before)
      expect(clock.timers).toBe(0)
    },
  )

  test('is waited for no longer once nobody wants the answer', async () => {
    const clock = new ManualClock()
    const { attempt, asked } = outage(clock, 60)
    const stop = new AbortController()
    const refused = patiently({ clock, chance }, stop.signal, attempt, publishing())
    await clock.advance(MINUTE_MS)
    const before = asked()
    stop.abort()
    expect(refusalOf(await refused)).toBe(`failed: ${AWAY}`)
    expect(asked()).toBe(before)
    expect(clock.timers).toBe(0)
  })

  test('of a moment is nobody’s business, and what lasts is not tried again', async () => {
    const clock = new ManualClock()
    const told: string[] = []
    const endurance = publishing((line) => told.push(line))
    const { attempt } = outage(clock, 0.05)
    const done = patiently({ clock, chance }, undefined, attempt, endurance)
    await clock.advance(MINUTE_MS)
    expect(got(await done)).toBe('done')
    const lasting = async (): Promise<Tried<string>> => ({ answer: no('forbidden', 'no'), passes: false })
    expect(refusalOf(await patiently({ clock, chance }, undefined, lasting, endurance))).toBe('forbidden: no')
    expect(told).toEqual([])
  })
})

/** Every other answer is lost on its way back, and for a while nothing gets through at all. */
function flaky(clock: ManualClock, minutes: number) {
  const comments: string[] = []
  const pulls: string[] = []
  let answers = 0
  const through = async <T>(work: () => Answer<T>): Promise<Answer<T>> => {
    if (clock.monotonic() < minutes * MINUTE_MS) return no('failed', AWAY)
    const answer = work()
    return ++answers % 2 === 0 ? no('unavailable', 'the answer was lost') : answer
  }
  const codehost: CodeHost = {
    gitAddress: () => '/nowhere',
    findPull: () =>
      through(() => yes(pulls.length === 0 ? undefined : { number: 1, url: 'https://x/1', state: 'open' })),
    openPull: ({ title }) =>
      through(() => {
        if (pulls.length > 0) return no('conflict', 'exists')
        pulls.push(title)
        return yes({ number: 1, url: 'https://x/1', state: 'open' })
      }),
    hasComment: (_, __, text) => through(() => yes(comments.some((body) => body.includes(text)))),
    comment: (_, __, body) =>
      through(() => {
        comments.push(body)
        return yes(undefined)
      }),
  }
  return { codehost, comments, pulls }
}

test('a comment that an outage holds up, and whose answers get lost, is made once', async () => {
  const clock = new ManualClock()
  const { codehost, comments } = flaky(clock, 4)
  const place = { codehost, remote: 'ada/lamps', number: 1 }
  const words = { marker: '<!-- m -->', body: 'Done.\n\n<!-- m -->' }
  const said = sayOnce({ clock, chance }, place, words, () => true, new AbortController().signal)
  await clock.advance(10 * MINUTE_MS)
  got(await said)
  expect(comments).toEqual([words.body])
})

describe('a pull request', () => {
  const delivery = (codehost: CodeHost, told: string[]) => ({
    job: aJob() as Job,
    leaseId: 'ls-1',
    folders: { work: '/w', home: '/h', desk: '/d', exchange: '/e' },
    from: { base: 'b' },
    head: 'h',
    summary: '',
    wanted: { name: 'ada/lamps', remote: { address: '/nowhere' } },
    codehost,
    fence: () => true,
    signal: new AbortController().signal,
    told: (line: string) => told.push(line),
  })
  /** The push is another story. */
  const git = {
    run: async () => yes({ code: 0, output: '', complaint: '' }),
    done: async () => yes({ code: 0, output: '', complaint: '' }),
  }

  test('that an outage holds up, and whose answers get lost, is opened once', async () => {
    const clock = new ManualClock()
    const { codehost, pulls } = flaky(clock, 4)
    const told: string[] = []
    const published = publish({ git, clock, chance }, delivery(codehost, told))
    await clock.advance(10 * MINUTE_MS)
    expect(got(await published)).toMatchObject({ prUrl: 'https://x/1' })
    expect(pulls).toHaveLength(1)
    expect(told[0]).toBe(`${AWAY}; trying again for up to 10 minutes`)
  })

  test('that is said to be there and is never found is not looked for over and over', async () => {
    const clock = new ManualClock()
    const { codehost } = flaky(clock, 0)
    let opened = 0
    const blind: CodeHost = {
      ...codehost,
      findPull: async () => yes(undefined),
      openPull: async () => {
        opened += 1
        return no('conflict', 'exists')
      },
    }
    const published = publish({ git, clock, chance }, delivery(blind, []))
    await clock.advance(10 * MINUTE_MS)
    expect(refusalOf(await published)).toMatch(/^conflict: exists/)
    expect(opened).toBe(3)
  })
})
