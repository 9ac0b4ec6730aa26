/** What a worker and its host say to each other while somebody is in a run's sandbox. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import { ANSWER, plainScreen, QUESTION } from '../../support/plain-screen.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { Later, SECRET, Talk } from './daemon-conversation.ts'

async function online(parts: ConstructorParameters<typeof Talk>[0] = {}): Promise<Talk> {
  const talk = new Talk(parts)
  await talk.start()
  await talk.welcome()
  talk.quiet = [...talk.quiet, 'dial', 'register', 'registered', 'lease-ack']
  talk.transcript()
  return talk
}

/** With a session that somebody looks at. */
async function attended(...views: string[]): Promise<Talk> {
  const talk = await online()
  await talk.boot('run-1', ...(views.length === 0 ? ['s-1'] : views))
  talk.transcript()
  return talk
}

const input = (sessionId: string, data: string) => ({ type: 'attach-input', sessionId, data }) as const
const resize = (sessionId: string, cols: number, rows: number) =>
  ({ type: 'attach-resize', sessionId, cols, rows }) as const
const close = (sessionId: string) => ({ type: 'attach-close', sessionId }) as const
const ask = (sessionId: string) => ({ type: 'attach-ask', sessionId }) as const
const release = (runId: string) => ({ type: 'sandbox-release', runId }) as const

function snapshot(sessionId: string): UsageSnapshot {
  return { projectKey: '-work', sessionId, entries: [] }
}

/** Time, on a line that stays up. */
async function passing(talk: Talk, ms: number): Promise<void> {
  talk.quiet = [...talk.quiet, 'heartbeat-ack']
  for (let left = ms; left > 0; left -= 20_000) {
    await talk.clock.advance(Math.min(left, 20_000))
    await talk.say({ type: 'heartbeat-ack', state: 'active', echo: 0 })
  }
}

async function backAgain(talk: Talk): Promise<void> {
  await talk.clock.advance(1_000)
  await talk.welcome()
}

describe('a session', () => {
  test('from the boot to its end', async () => {
    const talk = await online()
    const sandbox = await talk.boot('run-1')
    sandbox.usage = [snapshot('agent-1')]
    await talk.attach('s-1', 'run-1', 100, 30)
    await talk.shows('run-1', 'hello')
    await talk.say(input('s-1', 'exit\r'))
    await talk.shows('run-1', 'bye')
    await talk.endSession('run-1', 3)
    expectRecorded(talk.transcript())
    expect(talk.spooled()).not.toContain(SECRET)
    expect(JSON.stringify(talk.log.lines)).not.toContain(SECRET)
    expect(sandbox.order.credentials).toEqual({ codehost: SECRET })
  })

  test('that is asked for again is there already', async () => {
    const talk = await attended()
    await talk.wish('rq-2', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('two who ask for it at once get one', async () => {
    const talk = await online()
    talk.hands.boots = new Later()
    await talk.wish('rq-1', 'run-1')
    await talk.wish('rq-2', 'run-1')
    talk.hands.boots.settle(yes(undefined))
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('that can not be booted says why, and may be asked for again', async () => {
    const talk = await online()
    talk.hands.boots = new Later()
    talk.hands.boots.settle(no('gone', 'its disk was reclaimed'))
    await talk.wish('rq-1', 'run-1')
    talk.hands.boots = undefined
    await talk.wish('rq-2', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('whose run is being executed here is not booted, nor is a run executed that is booted here', async () => {
    const talk = await online()
    await talk.dispatch('ls-1')
    await talk.boot('run-2')
    talk.transcript()
    await talk.wish('rq-2', 'run-1')
    await talk.dispatch('ls-2', 'run-2')
    expectRecorded(talk.transcript())
  })

  test('of a worker that was killed is not there any more when it is back; its views hear why', async () => {
    const talk = await attended()
    await talk.restart()
    await backAgain(talk)
    talk.transcript()
    await talk.attach('s-1', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('that is being closed, or was, is not blamed on the worker', async () => {
    const talk = await attended()
    talk.sandbox('run-1').obedient = false
    await talk.say(release('run-1'))
    talk.transcript()
    await talk.attach('s-2', 'run-1')
    talk.sandbox('run-1').closed.settle()
    await talk.clock.turn()
    await talk.attach('s-3', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('that can not be started says so on the terminal', async () => {
    const talk = await online()
    const sandbox = await talk.boot('run-1')
    const { open } = sandbox
    sandbox.open = (size, ear) => {
      const session = open.call(sandbox, size, ear)
      ear.onOutput('no such program')
      ear.onExit(127)
      return session
    }
    talk.transcript()
    await talk.attach('s-1', 'run-1')
    expectRecorded(talk.transcript())
  })
})

describe('several views', () => {
  test('share one terminal, and a late one is drawn the picture first', async () => {
    const talk = await attended('s-1')
    await talk.shows('run-1', 'one ')
    await talk.attach('s-2', 'run-1', 120, 40)
    await talk.shows('run-1', 'two')
    expectRecorded(talk.transcript())
  })

  test('a view that is opened again gets the picture again, and nothing twice', async () => {
    const talk = await attended('s-1')
    await talk.shows('run-1', 'one ')
    await talk.attach('s-1', 'run-1')
    await talk.shows('run-1', 'two')
    expectRecorded(talk.transcript())
  })

  test('the size is that of the view that typed last', async () => {
    const talk = await attended('s-1', 's-2')
    await talk.say(resize('s-2', 120, 40))
    await talk.clock.advance(100)
    await talk.say(input('s-2', 'x'))
    await talk.clock.advance(100)
    await talk.say(resize('s-1', 60, 20))
    await talk.clock.advance(100)
    await talk.say(close('s-2'))
    await talk.clock.advance(100)
    expect(talk.transcript()).toEqual([
      '← attach-resize',
      '← attach-input',
      'typed "x"',
      'resized 120x40',
      '← attach-resize',
      '← attach-close',
      'resized 60x20',
    ])
  })

  test('a window that is being dragged is followed, but not at every step', async () => {
    const talk = await attended()
    talk.quiet = [...talk.quiet, 'attach-resize']
    for (let cols = 81; cols <= 180; cols++) await talk.say(resize('s-1', cols, 24))
    await talk.clock.advance(100)
    expect(talk.transcript()).toEqual(['resized 180x24'])
  })

  test('are counted in every heartbeat', async () => {
    const talk = await attended('s-1', 's-2')
    await talk.clock.advance(15_000)
    await talk.say(close('s-2'))
    await talk.clock.advance(15_000)
    const counts = talk.frames.flatMap((frame) => (frame.type === 'heartbeat' ? [frame.attachSessions] : []))
    expect(counts).toEqual([2, 1])
  })

  test('a session of another run is not mistaken for one of this', async () => {
    const talk = await attended('s-1')
    await talk.boot('run-2')
    talk.transcript()
    await talk.attach('s-1', 'run-2')
    expectRecorded(talk.transcript())
  })
})

describe('what is shown', () => {
  test('is only what draws, and what asks is answered here', async () => {
    const talk = await attended('s-1', 's-2')
    await talk.shows('run-1', `a\x1b]52;c;c2VjcmV0\x07b${QUESTION}c`)
    expect(talk.transcript()).toEqual([
      '→ attach-data s-1 abc',
      '→ attach-data s-2 abc',
      `typed ${JSON.stringify(ANSWER)}`,
    ])
  })

  test('comes in frames of a bounded length, and no character is cut in two', async () => {
    const talk = await attended()
    await talk.shows('run-1', `x${'🙂'.repeat(40_000)}`)
    const data = talk.frames.flatMap((frame) => (frame.type === 'attach-data' ? [frame.data] : [])).slice(1)
    expect(data.map(({ length }) => length)).toEqual([65_535, 14_466])
    expect(data.join('')).toBe(`x${'🙂'.repeat(40_000)}`)
    expect(data.every((piece) => !/[\ud800-\udbff]$/.test(piece))).toBe(true)
  })

  test('waits in the session while the line has enough to carry', async () => {
    const talk = await attended()
    talk.backlog = 300_000
    await talk.shows('run-1', 'one'.repeat(10_000))
    await talk.shows('run-1', 'two'.repeat(10_000))
    await talk.clock.advance(50)
    expect(talk.transcript()).toEqual(['paused'])
    talk.backlog = 0
    await talk.clock.advance(10)
    expectRecorded(talk.transcript())
  })

  test('goes by reports that wait on the line, as much as somebody who types would see', async () => {
    const talk = await attended()
    talk.backlog = 1_000_000
    await talk.shows('run-1', 'a'.repeat(50))
    await talk.shows('run-1', 'b'.repeat(16_000))
    await talk.shows('run-1', 'c'.repeat(16_000))
    expect(talk.transcript().map((line) => line.slice(0, 40))).toEqual([
      `→ attach-data s-1 ${'a'.repeat(22)}`,
      '→ attach-data s-1 (16000)',
      'paused',
    ])
    await talk.clock.advance(1_000)
    expectRecorded(talk.transcript())
  })

  test('a view that comes while the line is full waits for its picture, and misses nothing', async () => {
    const talk = await attended('s-1')
    talk.backlog = 300_000
    await talk.attach('s-2', 'run-1')
    await talk.shows('run-1', 'one')
    talk.backlog = 0
    await talk.clock.advance(10)
    await talk.shows('run-1', 'two')
    expectRecorded(talk.transcript())
  })

  test('a picture is drawn only of what everybody else has been shown', async () => {
    let drawn = () => {}
    const talk = await online({
      makeScreen: () => {
        let picture = ''
        return {
          write: (data) =>
            new Promise((resolve) => {
              drawn = () => {
                picture += data
                resolve()
              }
            }),
          resize: () => {},
          serialize: () => `[${picture}]`,
          close: () => {},
        }
      },
    })
    await talk.boot('run-1', 's-1')
    talk.transcript()
    await talk.shows('run-1', 'one')
    await talk.attach('s-2', 'run-1')
    await talk.shows('run-1', 'two')
    expectRecorded(talk.transcript())
    drawn()
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('a picture is not drawn again and again for a line that has no room for it', async () => {
    let pictures = 0
    const talk = await online({
      makeScreen: () => ({
        write: async () => {},
        resize: () => {},
        serialize: () => `${++pictures}`,
        close: () => {},
      }),
    })
    await talk.boot('run-1')
    talk.backlog = 300_000
    await talk.attach('s-1', 'run-1')
    await talk.clock.advance(1_000)
    expect(pictures).toBe(0)
    talk.backlog = 0
    await talk.clock.advance(10)
    expect(pictures).toBe(1)
  })

  test('of whoever pastes without end the rest is not taken in, which he hears', async () => {
    const talk = await attended('s-1', 's-2')
    talk.quiet = [...talk.quiet, 'attach-input']
    for (let n = 0; n < 17; n++) await talk.say(input('s-1', 'x'.repeat(64 * 1024)))
    await talk.clock.advance(1_000)
    await talk.say(input('s-2', 'y'))
    await talk.say(input('s-1', 'z'))
    expectRecorded(talk.transcript().slice(16))
  })

  test('a session that asks without end can be interrupted all the same', async () => {
    const talk = await online({
      makeScreen: (size, answer) => ({
        ...plainScreen(size, answer),
        write: async () => answer('x'.repeat(16 * 1024)),
      }),
    })
    await talk.boot('run-1', 's-1')
    for (let n = 0; n < 64; n++) await talk.shows('run-1', QUESTION)
    talk.transcript()
    await talk.say(input('s-1', '\u0003'))
    expect(talk.transcript()).toContain('typed "\\u0003"')
  })
})

describe('the end', () => {
  test('nobody looks any more: it is closed after a moment that a page needs to load anew', async () => {
    const talk = await attended()
    await talk.say(close('s-1'))
    await talk.clock.advance(29_000)
    await talk.attach('s-2', 'run-1')
    await talk.say(close('s-2'))
    await talk.clock.advance(29_000)
    expectRecorded(talk.transcript())
    await talk.clock.advance(1_000)
    expect(talk.transcript()).toEqual(['close run-1'])
  })

  test('nobody ever comes', async () => {
    const talk = await online()
    await talk.boot('run-1')
    talk.transcript()
    await passing(talk, 119_000)
    expect(talk.transcript()).toEqual([])
    await passing(talk, 1_000)
    expect(talk.transcript()).toEqual(['close run-1'])
  })

  test('it is released at once, and again is nothing', async () => {
    const talk = await attended()
    await talk.say(release('run-1'))
    await talk.say(release('run-1'))
    await talk.say(release('run-7'))
    expectRecorded(talk.transcript())
  })

  test('released while it is being booted it is closed as soon as it is there', async () => {
    const talk = await online()
    talk.hands.boots = new Later()
    await talk.wish('rq-1', 'run-1')
    await talk.say(release('run-1'))
    talk.hands.boots.settle(yes(undefined))
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('released and asked for in one breath while it is being booted, it is booted anew', async () => {
    const talk = await online()
    talk.hands.boots = new Later()
    await talk.wish('rq-1', 'run-1')
    await Promise.all([talk.say(release('run-1')), talk.wish('rq-2', 'run-1')])
    talk.hands.boots.settle(yes(undefined))
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('asked for while it is being closed, it is booted anew once it is gone', async () => {
    const talk = await attended()
    const sandbox = talk.sandbox('run-1')
    sandbox.obedient = false
    await talk.say(release('run-1'))
    await talk.wish('rq-2', 'run-1')
    talk.transcript()
    sandbox.closed.settle()
    await talk.clock.turn()
    expectRecorded(talk.transcript())
  })

  test('a run that is discarded is closed first', async () => {
    const talk = await attended()
    const sandbox = talk.sandbox('run-1')
    sandbox.obedient = false
    await talk.say({ type: 'discard', runId: 'run-1' })
    expectRecorded(talk.transcript())
    sandbox.closed.settle()
    await talk.clock.turn()
    expect(talk.transcript()).toEqual(['discard run-1'])
  })

  test('what is booted is claimed when disk is taken back', async () => {
    const talk = await attended()
    await passing(talk, 320_000)
    expect(talk.hands.spared.at(-1)).toEqual(['run-1'])
  })
})

describe('a line that breaks', () => {
  test('takes the views with it; the session lives on, and they are drawn anew', async () => {
    const talk = await attended('s-1')
    await talk.shows('run-1', 'one ')
    await talk.drop()
    await talk.shows('run-1', 'two ')
    await backAgain(talk)
    await talk.shows('run-1', 'three ')
    await talk.attach('s-1', 'run-1')
    await talk.shows('run-1', 'four')
    expectRecorded(talk.transcript())
  })

  test('views that come back in another order leave the size to who typed last', async () => {
    const talk = await attended('s-1')
    await talk.attach('s-2', 'run-1', 120, 40)
    await talk.say(input('s-2', 'x'))
    await talk.clock.advance(100)
    await talk.drop()
    await backAgain(talk)
    talk.transcript()
    await talk.attach('s-1', 'run-1')
    await talk.attach('s-2', 'run-1', 120, 40)
    await talk.clock.advance(1_000)
    expect(talk.transcript().filter((line) => line.startsWith('resized'))).toEqual([])
  })

  test('is followed by the count of what was typed, before the picture and whether or not anything came', async () => {
    const talk = await attended('s-1', 's-2')
    await talk.say(input('s-1', 'a'))
    await talk.say(input('s-1', 'b'))
    await talk.drop()
    await backAgain(talk)
    talk.transcript()
    for (const view of ['s-1', 's-2']) {
      await talk.say(ask(view))
      await talk.attach(view, 'run-1')
    }
    await talk.say(close('s-1'))
    await talk.say(ask('s-1'))
    expectRecorded(talk.transcript().filter((line) => line.startsWith('→')))
  })

  test('again and again does not make it remember more and more of those who never come back', async () => {
    const talk = await attended('s-stays')
    for (let n = 0; n < 6; n++) {
      const views = ['s-stays', ...Array.from({ length: 60 }, (_, at) => `s-${n}-${at}`)]
      for (const view of views) {
        await talk.attach(view, 'run-1')
        await talk.say(input(view, 'x'))
      }
      await talk.drop()
      await backAgain(talk)
    }
    talk.transcript()
    for (const view of ['s-stays', 's-0-0', 's-5-59']) await talk.say(ask(view))
    expectRecorded(talk.transcript().filter((line) => line.startsWith('→')))
  })

  test('and whose host stays away ends the session', async () => {
    const talk = await attended()
    talk.sandbox('run-1').usage = [snapshot('agent-1')]
    await talk.drop()
    await talk.clock.advance(119_000)
    expect(talk.transcript()).toEqual([])
    await talk.clock.advance(1_000)
    expect(talk.transcript()).toEqual(['close run-1'])
    await backAgain(talk)
    await talk.attach('s-1', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('what a session itself has used is told when there is a line again, whatever its nested agents leave', async () => {
    const talk = await attended()
    const nested = Array.from({ length: 100 }, (_, n) => ({ ...snapshot('nested'), subagentId: `a${n}` }))
    talk.sandbox('run-1').usage = [snapshot('agent-1'), ...nested]
    await talk.drop()
    await talk.clock.advance(120_000)
    await backAgain(talk)
    const told = talk.transcript().filter((line) => line.startsWith('→ run-usage-snapshot'))
    expect(told).toHaveLength(64)
    expect(told).toContain('→ run-usage-snapshot of agent-1')
  })

  test('a session that ended meanwhile is shown with its end', async () => {
    const talk = await attended()
    await talk.drop()
    await talk.shows('run-1', 'bye')
    await talk.endSession('run-1', 0)
    await backAgain(talk)
    await talk.attach('s-1', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('how a session ended is not shown to one more on a line that is full of it, only told', async () => {
    const talk = await attended()
    await talk.drop()
    await talk.shows('run-1', 'bye')
    await talk.endSession('run-1', 0)
    await backAgain(talk)
    talk.transcript()
    talk.backlog = 4 * 1024 * 1024
    await talk.attach('s-1', 'run-1')
    expectRecorded(talk.transcript())
  })

  test('a boot that is ready when there is no line waits for somebody to ask again', async () => {
    const talk = await online()
    talk.hands.boots = new Later()
    await talk.wish('rq-1', 'run-1')
    await talk.drop()
    talk.hands.boots.settle(yes(undefined))
    await backAgain(talk)
    await talk.wish('rq-2', 'run-1')
    expectRecorded(talk.transcript())
  })
})

describe('a daemon that ends', () => {
  test('waits for a person, when it drains, as for a run', async () => {
    const talk = await attended()
    talk.daemon.drain()
    await talk.clock.turn()
    await talk.wish('rq-9', 'run-9')
    await talk.shows('run-1', 'still here')
    expect(talk.ends).toEqual([])
    await talk.say(release('run-1'))
    expectRecorded(talk.transcript())
  })

  const ways: readonly (readonly [name: string, (talk: Talk) => unknown, why: string])[] = [
    ['is stopped', ({ daemon }) => daemon.stopNow(), 'the worker is being stopped'],
    ['hands back what it has', ({ daemon }) => daemon.handBack(), 'the worker is being stopped'],
  ]
  test.each(ways)('closes everything when it %s, and tells what it came to', async (_name, end, why) => {
    const talk = await attended()
    talk.sandbox('run-1').usage = [snapshot('agent-1')]
    end(talk)
    await talk.clock.turn()
    expect(talk.transcript()).toEqual([
      `→ attach-error s-1 (${why})`,
      'close run-1',
      '→ run-usage-snapshot of agent-1',
      'ends: stopped (it was asked to stop)',
    ])
  })

  test('closes everything when it is revoked', async () => {
    const talk = await attended()
    await talk.say({ type: 'revoked', reason: 'gone for good' })
    expectRecorded(talk.transcript())
  })

  test('does not wait for ever for what does not go', async () => {
    const talk = await attended()
    talk.sandbox('run-1').obedient = false
    talk.daemon.stopNow()
    await talk.clock.advance(60_000)
    expect(talk.ends.map(({ is }) => is)).toEqual(['stopped'])
  })
})
