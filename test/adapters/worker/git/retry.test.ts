/** Retries of temporary failures: how long, with which pauses, and what the run's log says. */
import { describe, expect, test } from '@jest/globals'
import type { CodeHost } from '../../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../../core/result.ts'
import type { Job } from '../../../../protocol/frames.ts'
import { hasFollowUpComment, postCommentOnce } from '../../../../worker/git/follow-up/follow-up.ts'
import { publish } from '../../../../worker/git/publish/publish.ts'
import {
  type Attempt,
  whileBeginning,
  whileFetching,
  whilePublishing,
  withRetries,
} from '../../../../worker/git/retry.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { aJob, got, refusalOf } from './git-fixture.ts'

const MINUTE_MS = 60_000
const AWAY = 'the code host could not be reached'
const random = { fraction: () => 0.5 }
/** The host has the work published later. */
const publishing = (log?: (line: string) => void) =>
  whilePublishing({ limits: { unreachableSeconds: 20 }, retentionHours: 1 }, log)
/** Nobody publishes later, because no sandbox is kept. */
const lastChance = (log?: (line: string) => void) =>
  whilePublishing({ limits: { unreachableSeconds: 20 }, retentionHours: 0 }, log)
/** A host of an earlier version. */
const job = { limits: {}, retentionHours: 1 }

/** Fails until this time has passed. */
function outage(clock: ManualClock, minutes: number) {
  let asked = 0
  const isOver = () => clock.monotonic() >= minutes * MINUTE_MS
  const attempt = async (): Promise<Attempt<string>> => {
    asked += 1
    return isOver()
      ? { result: yes('done'), isTransient: false }
      : { result: no('failed', AWAY), isTransient: true }
  }
  return { attempt, isOver, asked: () => asked }
}

describe('an outage', () => {
  test('of some minutes is survived, and the log says once why', async () => {
    const clock = new ManualClock()
    const { attempt, asked } = outage(clock, 5)
    const lines: string[] = []
    const done = withRetries(
      { clock, random },
      undefined,
      attempt,
      lastChance((line) => lines.push(line)),
    )
    await clock.advance(6 * MINUTE_MS)
    expect(got(await done)).toBe('done')
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^${AWAY}; .* 10 minutes$`)),
      expect.stringMatching(/ 5 minutes$/),
    ])
    expect(asked()).toBeLessThan(30)
  })

  test.each([
    ['publishing for the last time', lastChance, 10],
    ['publishing', publishing, 3],
    ['publishing for an earlier host', (log?: (line: string) => void) => whilePublishing(job, log), 10],
    ['fetching', whileFetching, 3],
  ] as const)(
    'that does not end is given up when %s, and the reason says after how long',
    async (_, endure, minutes) => {
      const clock = new ManualClock()
      const { attempt, asked } = outage(clock, 60)
      const refused = withRetries({ clock, random }, undefined, attempt, endure())
      await clock.advance((minutes + 1) * MINUTE_MS)
      expect(refusalOf(await refused)).toBe(`failed: ${AWAY} (tried for ${minutes} minutes)`)
      const before = asked()
      await clock.advance(60 * MINUTE_MS)
      expect(asked()).toBe(before)
      expect(clock.timers).toBe(0)
    },
  )

  test('is waited for briefly before a run has begun, where its host queues the run again', async () => {
    const clock = new ManualClock()
    const { attempt, asked } = outage(clock, 60)
    const lines: string[] = []
    const endurance = whileBeginning({ unreachableSeconds: 20 }, (line) => lines.push(line))
    const refused = withRetries({ clock, random }, undefined, attempt, endurance)
    await clock.advance(25_000)
    expect(refusalOf(await refused)).toBe(`failed: ${AWAY} (tried for 20 seconds)`)
    expect(asked()).toBeGreaterThan(2)
    expect(lines).toEqual([expect.stringMatching(/; trying again for up to \d+ seconds$/)])
    const early = whileBeginning({})
    expect([early.forMs, early.isGivenBack]).toEqual([3 * MINUTE_MS, undefined])
  })

  test('is not waited for after an abort', async () => {
    const clock = new ManualClock()
    const { attempt, asked } = outage(clock, 60)
    const stop = new AbortController()
    const refused = withRetries({ clock, random }, stop.signal, attempt, publishing())
    await clock.advance(MINUTE_MS)
    const before = asked()
    stop.abort()
    expect(refusalOf(await refused)).toBe(`failed: ${AWAY}`)
    expect(asked()).toBe(before)
    expect(clock.timers).toBe(0)
  })

  test('of a moment is not logged, and a permanent failure is not retried', async () => {
    const clock = new ManualClock()
    const lines: string[] = []
    const endurance = publishing((line) => lines.push(line))
    const { attempt } = outage(clock, 0.05)
    const done = withRetries({ clock, random }, undefined, attempt, endurance)
    await clock.advance(MINUTE_MS)
    expect(got(await done)).toBe('done')
    const lasting = async (): Promise<Attempt<string>> => ({
      result: no('forbidden', 'no'),
      isTransient: false,
    })
    expect(refusalOf(await withRetries({ clock, random }, undefined, lasting, endurance))).toBe(
      'forbidden: no',
    )
    expect(lines).toEqual([])
  })
})

describe('a pause that the server requests', () => {
  /** Refuses until that instant, and counts the attempts that come too early. */
  function limited(clock: ManualClock, minutes: number, requestedMs = (leftMs: number) => leftMs) {
    let early = 0
    const attempt = async (): Promise<Attempt<string>> => {
      const leftMs = minutes * MINUTE_MS - clock.monotonic()
      if (leftMs <= 0) return { result: yes('done'), isTransient: false }
      early += 1
      return { result: no('unavailable', 'too often', requestedMs(leftMs)), isTransient: true }
    }
    return { attempt, early: () => early }
  }

  test('is kept, however long retries may take, and logged with its end', async () => {
    const clock = new ManualClock()
    const { attempt, early } = limited(clock, 60)
    const lines: string[] = []
    const endurance = lastChance((line) => lines.push(line))
    const until = new Date(clock.now() + 60 * MINUTE_MS).toISOString().slice(0, 16)
    const done = withRetries({ clock, random }, undefined, attempt, endurance)
    await clock.advance(61 * MINUTE_MS)
    expect(got(await done)).toBe('done')
    expect(early()).toBe(1)
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^too often; .*${until}`)),
      expect.stringMatching(/ 60 minutes$/),
    ])
  })

  test('does not count towards the time for retries', async () => {
    const clock = new ManualClock()
    const { attempt } = limited(clock, 50)
    const away = outage(clock, 58)
    const both = async () => ((await attempt()).result.ok ? away.attempt() : attempt())
    const done = withRetries({ clock, random }, undefined, both, lastChance())
    await clock.advance(60 * MINUTE_MS)
    expect(got(await done)).toBe('done')
  })

  test.each([
    ['at once', 3 * 60, (leftMs: number) => leftMs, 0, 1],
    ['for ever', 3 * 60, () => Number.MAX_VALUE, 0, 1],
    ['a minute at a time', 24 * 60, () => MINUTE_MS, 66, 65],
  ])('is not kept for hours, requested %s', async (_, minutes, requestedMs, waited, triesMax) => {
    const clock = new ManualClock()
    const { attempt, early } = limited(clock, minutes, requestedMs)
    const refused = withRetries({ clock, random }, undefined, attempt, lastChance())
    await clock.advance(waited * MINUTE_MS)
    expect(refusalOf(await refused)).toMatch(
      /^unavailable: too often \(not within .* minutes?, which is too long/,
    )
    expect(early()).toBeLessThanOrEqual(triesMax)
    expect(clock.timers).toBe(0)
  })

  test('is not kept while the work can be published later', async () => {
    const clock = new ManualClock()
    const { attempt, early } = limited(clock, 4)
    const refused = withRetries({ clock, random }, undefined, attempt, publishing())
    expect(refusalOf(await refused)).toMatch(/^unavailable: too often \(not within 4 minutes/)
    expect([early(), clock.timers]).toEqual([1, 0])
  })

  test('ends early after an abort', async () => {
    const clock = new ManualClock()
    const { attempt } = limited(clock, 60)
    const stop = new AbortController()
    const refused = withRetries({ clock, random }, stop.signal, attempt, lastChance())
    await clock.advance(MINUTE_MS)
    stop.abort()
    expect(refusalOf(await refused)).toBe('unavailable: too often')
    expect(clock.timers).toBe(0)
  })

  test('ends short retries at once', async () => {
    const clock = new ManualClock()
    const { attempt, early } = limited(clock, 60)
    expect(refusalOf(await withRetries({ clock, random }, undefined, attempt))).toBe('unavailable: too often')
    expect(early()).toBe(1)
  })
})

/** Loses every other response, and for a while fails every request. */
function flaky(clock: ManualClock, minutes: number) {
  const comments: string[] = []
  const pulls: string[] = []
  let answers = 0
  const through = async <T>(work: () => Result<T>): Promise<Result<T>> => {
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
    dropRepeats: (_, __, text) => {
      const [first, ...rest] = comments.filter((body) => body.endsWith(text))
      if (first !== undefined) comments.splice(0, comments.length, first)
      return through(() => yes(rest.length))
    },
  }
  return { codehost, comments, pulls }
}

const MARK = '<!-- m -->'

test('a comment is posted once despite an outage and lost responses', async () => {
  const clock = new ManualClock()
  const { codehost, comments } = flaky(clock, 4)
  const place = { codehost, remote: 'ada/lamps', number: 1, job }
  const words = { marker: MARK, body: `Done.\n\n${MARK}`, isTakenOver: false }
  const posted = postCommentOnce({ clock, random }, place, words, () => true, new AbortController().signal)
  await clock.advance(10 * MINUTE_MS)
  got(await posted)
  expect(comments).toEqual([words.body])
})

describe('a comment that the code host processes late', () => {
  const body = `Done.\n\n${MARK}`
  /** The code host processes an earlier request at this moment. */
  function late(clock: ManualClock, atMs: number) {
    const world = flaky(clock, 0)
    const { codehost, comments } = world
    const through = <T>(work: () => T): Promise<T> => {
      if (clock.monotonic() >= atMs && !comments.includes(`Before.\n\n${MARK}`))
        comments.push(`Before.\n\n${MARK}`)
      return Promise.resolve(work())
    }
    const host: CodeHost = {
      ...codehost,
      hasComment: (_, __, text) => through(() => yes(comments.some((comment) => comment.includes(text)))),
      comment: async (_, __, text) => {
        comments.push(text)
        return yes(undefined)
      },
      dropRepeats: (_, __, text) =>
        through(() => {
          const [first, ...rest] = comments.filter((comment) => comment.endsWith(text))
          comments.splice(0, comments.length, ...(first === undefined ? [] : [first]))
          return yes(rest.length)
        }),
    }
    return { host, comments }
  }
  const place = (codehost: CodeHost) => ({ codehost, remote: 'ada/lamps', number: 1, job })

  test('is waited for only by a worker that takes the follow-up over', async () => {
    for (const isTakenOver of [true, false]) {
      const clock = new ManualClock()
      const { host, comments } = late(clock, 3_000)
      const words = { marker: MARK, body, isTakenOver }
      const posted = postCommentOnce(
        { clock, random },
        place(host),
        words,
        () => true,
        new AbortController().signal,
      )
      await clock.advance(6_000)
      got(await posted)
      expect(comments).toEqual([isTakenOver ? `Before.\n\n${MARK}` : body])
    }
  })

  test('is deleted if it appears right after ours, or later', async () => {
    const clock = new ManualClock()
    const { host, comments } = late(clock, 0)
    const lines: string[] = []
    const blind = { ...host, hasComment: async () => yes(false) }
    const words = { marker: MARK, body, isTakenOver: false }
    const where = { ...place(blind), logToRun: (line: string) => lines.push(line) }
    got(await postCommentOnce({ clock, random }, where, words, () => true, new AbortController().signal))
    expect([comments, lines]).toEqual([[body], [expect.stringContaining('more than once')]])
    comments.push(body)
    const found = hasFollowUpComment({ clock, random }, place(host), MARK, new AbortController().signal)
    expect([got(await found), comments]).toEqual([true, [body]])
  })

  test('does not fail the follow-up if it cannot be deleted', async () => {
    const clock = new ManualClock()
    const { host } = late(clock, 0)
    const lines: string[] = []
    const forbidden = { ...host, dropRepeats: async () => no('forbidden', 'not allowed') }
    const where = { ...place(forbidden), logToRun: (line: string) => lines.push(line) }
    const words = { marker: MARK, body, isTakenOver: false }
    got(await postCommentOnce({ clock, random }, where, words, () => true, new AbortController().signal))
    expect(lines).toEqual([expect.stringMatching(/could not be deleted: not allowed$/)])
  })
})

describe('a pull request', () => {
  const delivery = (codehost: CodeHost, lines: string[]) => ({
    job: aJob() as Job,
    leaseId: 'ls-1',
    folders: { work: '/w', home: '/h', staging: '/d', exchange: '/e' },
    from: { base: 'b' },
    head: 'h',
    summary: '',
    repository: { name: 'ada/lamps', remote: { address: '/nowhere' } },
    codehost,
    mayContinue: () => true,
    signal: new AbortController().signal,
    logToRun: (line: string) => lines.push(line),
  })
  /** Every git command succeeds, because only the pull request is tested. */
  const git = {
    run: async () => yes({ code: 0, output: '', stderr: '' }),
    runChecked: async () => yes({ code: 0, output: '', stderr: '' }),
  }

  test('is opened once despite an outage and lost responses', async () => {
    const clock = new ManualClock()
    const { codehost, pulls } = flaky(clock, 4)
    const lines: string[] = []
    const published = publish({ git, clock, random }, delivery(codehost, lines))
    await clock.advance(10 * MINUTE_MS)
    expect(got(await published)).toMatchObject({ prUrl: 'https://x/1' })
    expect(pulls).toHaveLength(1)
    expect(lines[0]).toMatch(new RegExp(`^${AWAY}; .* 10 minutes$`))
  })

  test('that conflicts but is never found is searched only a few times', async () => {
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
    const published = publish({ git, clock, random }, delivery(blind, []))
    await clock.advance(10 * MINUTE_MS)
    expect(refusalOf(await published)).toMatch(/^conflict: exists/)
    expect(opened).toBe(3)
  })
})
