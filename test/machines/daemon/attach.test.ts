/** What a worker and its host say to each other while somebody is in a run's sandbox. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import { ANSWER, plainScreen, QUESTION } from '../../support/plain-screen.ts'
import { expectRecorded } from '../../support/recorded-expectations.ts'
import { DaemonConversation, ManualPromise, SECRET } from './daemon-conversation.ts'

async function online(
  parts: ConstructorParameters<typeof DaemonConversation>[0] = {},
): Promise<DaemonConversation> {
  const conversation = new DaemonConversation(parts)
  await conversation.start()
  await conversation.register()
  conversation.hiddenFrames = [...conversation.hiddenFrames, 'dial', 'register', 'registered', 'lease-ack']
  conversation.transcript()
  return conversation
}

/** With a session that somebody looks at. */
async function withViews(...views: string[]): Promise<DaemonConversation> {
  const conversation = await online()
  await conversation.boot('run-1', ...(views.length === 0 ? ['s-1'] : views))
  conversation.transcript()
  return conversation
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
async function advanceConnected(conversation: DaemonConversation, ms: number): Promise<void> {
  conversation.hiddenFrames = [...conversation.hiddenFrames, 'heartbeat-ack']
  for (let left = ms; left > 0; left -= 20_000) {
    await conversation.clock.advance(Math.min(left, 20_000))
    await conversation.hostSends({ type: 'heartbeat-ack', state: 'active', echo: 0 })
  }
}

async function reconnect(conversation: DaemonConversation): Promise<void> {
  await conversation.clock.advance(1_000)
  await conversation.register()
}

describe('a session', () => {
  test('from the boot to its end', async () => {
    const conversation = await online()
    const sandbox = await conversation.boot('run-1')
    sandbox.usage = [snapshot('agent-1')]
    await conversation.openView('s-1', 'run-1', 100, 30)
    await conversation.printOnTerminal('run-1', 'hello')
    await conversation.hostSends(input('s-1', 'exit\r'))
    await conversation.printOnTerminal('run-1', 'bye')
    await conversation.endSession('run-1', 3)
    expectRecorded(conversation.transcript())
    expect(conversation.storedText()).not.toContain(SECRET)
    expect(JSON.stringify(conversation.log.lines)).not.toContain(SECRET)
    expect(sandbox.request.credentials).toEqual({ codehost: SECRET })
  })

  test('that is asked for again is there already', async () => {
    const conversation = await withViews()
    await conversation.requestBoot('rq-2', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('two who ask for it at once get one', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await conversation.requestBoot('rq-2', 'run-1')
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('that can not be booted says why, and may be asked for again', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    conversation.executor.pendingBoot.resolve(no('gone', 'its disk was reclaimed'))
    await conversation.requestBoot('rq-1', 'run-1')
    conversation.executor.pendingBoot = undefined
    await conversation.requestBoot('rq-2', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('whose run is being executed here is not booted, nor is a run executed that is booted here', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    await conversation.boot('run-2')
    conversation.transcript()
    await conversation.requestBoot('rq-2', 'run-1')
    await conversation.dispatch('ls-2', 'run-2')
    expectRecorded(conversation.transcript())
  })

  test('of a worker that was killed is not there any more when it is back; its views hear why', async () => {
    const conversation = await withViews()
    await conversation.restart()
    await reconnect(conversation)
    conversation.transcript()
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('that is being closed, or was, is not blamed on the worker', async () => {
    const conversation = await withViews()
    conversation.sandbox('run-1').closesWhenAsked = false
    await conversation.hostSends(release('run-1'))
    conversation.transcript()
    await conversation.openView('s-2', 'run-1')
    conversation.sandbox('run-1').closed.resolve()
    await conversation.clock.turn()
    await conversation.openView('s-3', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('that can not be started says so on the terminal', async () => {
    const conversation = await online()
    const sandbox = await conversation.boot('run-1')
    const { open } = sandbox
    sandbox.open = (size, ear) => {
      const session = open.call(sandbox, size, ear)
      ear.onOutput('no such program')
      ear.onExit(127)
      return session
    }
    conversation.transcript()
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })
})

describe('several views', () => {
  test('share one terminal, and a late one is drawn the picture first', async () => {
    const conversation = await withViews('s-1')
    await conversation.printOnTerminal('run-1', 'one ')
    await conversation.openView('s-2', 'run-1', 120, 40)
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('a view that is opened again gets the picture again, and nothing twice', async () => {
    const conversation = await withViews('s-1')
    await conversation.printOnTerminal('run-1', 'one ')
    await conversation.openView('s-1', 'run-1')
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('the size is that of the view that typed last', async () => {
    const conversation = await withViews('s-1', 's-2')
    await conversation.hostSends(resize('s-2', 120, 40))
    await conversation.clock.advance(100)
    await conversation.hostSends(input('s-2', 'x'))
    await conversation.clock.advance(100)
    await conversation.hostSends(resize('s-1', 60, 20))
    await conversation.clock.advance(100)
    await conversation.hostSends(close('s-2'))
    await conversation.clock.advance(100)
    expect(conversation.transcript()).toEqual([
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
    const conversation = await withViews()
    conversation.hiddenFrames = [...conversation.hiddenFrames, 'attach-resize']
    for (let cols = 81; cols <= 180; cols++) await conversation.hostSends(resize('s-1', cols, 24))
    await conversation.clock.advance(100)
    expect(conversation.transcript()).toEqual(['resized 180x24'])
  })

  test('are counted in every heartbeat', async () => {
    const conversation = await withViews('s-1', 's-2')
    await conversation.clock.advance(15_000)
    await conversation.hostSends(close('s-2'))
    await conversation.clock.advance(15_000)
    const counts = conversation.frames.flatMap((frame) =>
      frame.type === 'heartbeat' ? [frame.attachSessions] : [],
    )
    expect(counts).toEqual([2, 1])
  })

  test('a session of another run is not mistaken for one of this', async () => {
    const conversation = await withViews('s-1')
    await conversation.boot('run-2')
    conversation.transcript()
    await conversation.openView('s-1', 'run-2')
    expectRecorded(conversation.transcript())
  })
})

describe('what is shown', () => {
  test('is only what draws, and what asks is answered here', async () => {
    const conversation = await withViews('s-1', 's-2')
    await conversation.printOnTerminal('run-1', `a\x1b]52;c;c2VjcmV0\x07b${QUESTION}c`)
    expect(conversation.transcript()).toEqual([
      '→ attach-data s-1 abc',
      '→ attach-data s-2 abc',
      `typed ${JSON.stringify(ANSWER)}`,
    ])
  })

  test('comes in frames of a bounded length, and no character is cut in two', async () => {
    const conversation = await withViews()
    await conversation.printOnTerminal('run-1', `x${'🙂'.repeat(40_000)}`)
    const data = conversation.frames
      .flatMap((frame) => (frame.type === 'attach-data' ? [frame.data] : []))
      .slice(1)
    expect(data.map(({ length }) => length)).toEqual([65_535, 14_466])
    expect(data.join('')).toBe(`x${'🙂'.repeat(40_000)}`)
    expect(data.every((piece) => !/[\ud800-\udbff]$/.test(piece))).toBe(true)
  })

  test('waits in the session while the line has enough to carry', async () => {
    const conversation = await withViews()
    conversation.backlog = 300_000
    await conversation.printOnTerminal('run-1', 'one'.repeat(10_000))
    await conversation.printOnTerminal('run-1', 'two'.repeat(10_000))
    await conversation.clock.advance(50)
    expect(conversation.transcript()).toEqual(['paused'])
    conversation.backlog = 0
    await conversation.clock.advance(10)
    expectRecorded(conversation.transcript())
  })

  test('goes by reports that wait on the line, as much as somebody who types would see', async () => {
    const conversation = await withViews()
    conversation.backlog = 1_000_000
    await conversation.printOnTerminal('run-1', 'a'.repeat(50))
    await conversation.printOnTerminal('run-1', 'b'.repeat(16_000))
    await conversation.printOnTerminal('run-1', 'c'.repeat(16_000))
    expect(conversation.transcript().map((line) => line.slice(0, 40))).toEqual([
      `→ attach-data s-1 ${'a'.repeat(22)}`,
      '→ attach-data s-1 (16000)',
      'paused',
    ])
    await conversation.clock.advance(1_000)
    expectRecorded(conversation.transcript())
  })

  test('a view that comes while the line is full waits for its picture, and misses nothing', async () => {
    const conversation = await withViews('s-1')
    conversation.backlog = 300_000
    await conversation.openView('s-2', 'run-1')
    await conversation.printOnTerminal('run-1', 'one')
    conversation.backlog = 0
    await conversation.clock.advance(10)
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('a picture is drawn only of what everybody else has been shown', async () => {
    let drawn = () => {}
    const conversation = await online({
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
    await conversation.boot('run-1', 's-1')
    conversation.transcript()
    await conversation.printOnTerminal('run-1', 'one')
    await conversation.openView('s-2', 'run-1')
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
    drawn()
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('a picture is not drawn again and again for a line that has no room for it', async () => {
    let pictures = 0
    const conversation = await online({
      makeScreen: () => ({
        write: async () => {},
        resize: () => {},
        serialize: () => `${++pictures}`,
        close: () => {},
      }),
    })
    await conversation.boot('run-1')
    conversation.backlog = 300_000
    await conversation.openView('s-1', 'run-1')
    await conversation.clock.advance(1_000)
    expect(pictures).toBe(0)
    conversation.backlog = 0
    await conversation.clock.advance(10)
    expect(pictures).toBe(1)
  })

  test('of whoever pastes without end the rest is not taken in, which he hears', async () => {
    const conversation = await withViews('s-1', 's-2')
    conversation.hiddenFrames = [...conversation.hiddenFrames, 'attach-input']
    for (let n = 0; n < 17; n++) await conversation.hostSends(input('s-1', 'x'.repeat(64 * 1024)))
    await conversation.clock.advance(1_000)
    await conversation.hostSends(input('s-2', 'y'))
    await conversation.hostSends(input('s-1', 'z'))
    expectRecorded(conversation.transcript().slice(16))
  })

  test('a session that asks without end can be interrupted all the same', async () => {
    const conversation = await online({
      makeScreen: (size, answer) => ({
        ...plainScreen(size, answer),
        write: async () => answer('x'.repeat(16 * 1024)),
      }),
    })
    await conversation.boot('run-1', 's-1')
    for (let n = 0; n < 64; n++) await conversation.printOnTerminal('run-1', QUESTION)
    conversation.transcript()
    await conversation.hostSends(input('s-1', '\u0003'))
    expect(conversation.transcript()).toContain('typed "\\u0003"')
  })
})

describe('the end', () => {
  test('nobody looks any more: it is closed after a moment that a page needs to load anew', async () => {
    const conversation = await withViews()
    await conversation.hostSends(close('s-1'))
    await conversation.clock.advance(29_000)
    await conversation.openView('s-2', 'run-1')
    await conversation.hostSends(close('s-2'))
    await conversation.clock.advance(29_000)
    expectRecorded(conversation.transcript())
    await conversation.clock.advance(1_000)
    expect(conversation.transcript()).toEqual(['close run-1'])
  })

  test('nobody ever comes', async () => {
    const conversation = await online()
    await conversation.boot('run-1')
    conversation.transcript()
    await advanceConnected(conversation, 119_000)
    expect(conversation.transcript()).toEqual([])
    await advanceConnected(conversation, 1_000)
    expect(conversation.transcript()).toEqual(['close run-1'])
  })

  test('it is released at once, and again is nothing', async () => {
    const conversation = await withViews()
    await conversation.hostSends(release('run-1'))
    await conversation.hostSends(release('run-1'))
    await conversation.hostSends(release('run-7'))
    expectRecorded(conversation.transcript())
  })

  test('released while it is being booted it is closed as soon as it is there', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await conversation.hostSends(release('run-1'))
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('released and asked for in one breath while it is being booted, it is booted anew', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await Promise.all([conversation.hostSends(release('run-1')), conversation.requestBoot('rq-2', 'run-1')])
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('asked for while it is being closed, it is booted anew once it is gone', async () => {
    const conversation = await withViews()
    const sandbox = conversation.sandbox('run-1')
    sandbox.closesWhenAsked = false
    await conversation.hostSends(release('run-1'))
    await conversation.requestBoot('rq-2', 'run-1')
    conversation.transcript()
    sandbox.closed.resolve()
    await conversation.clock.turn()
    expectRecorded(conversation.transcript())
  })

  test('a run that is discarded is closed first', async () => {
    const conversation = await withViews()
    const sandbox = conversation.sandbox('run-1')
    sandbox.closesWhenAsked = false
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    expectRecorded(conversation.transcript())
    sandbox.closed.resolve()
    await conversation.clock.turn()
    expect(conversation.transcript()).toEqual(['discard run-1'])
  })

  test('what is booted is claimed when disk is taken back', async () => {
    const conversation = await withViews()
    await advanceConnected(conversation, 320_000)
    expect(conversation.executor.protectedRuns.at(-1)).toEqual(['run-1'])
  })
})

describe('a line that breaks', () => {
  test('takes the views with it; the session lives on, and they are drawn anew', async () => {
    const conversation = await withViews('s-1')
    await conversation.printOnTerminal('run-1', 'one ')
    await conversation.loseConnection()
    await conversation.printOnTerminal('run-1', 'two ')
    await reconnect(conversation)
    await conversation.printOnTerminal('run-1', 'three ')
    await conversation.openView('s-1', 'run-1')
    await conversation.printOnTerminal('run-1', 'four')
    expectRecorded(conversation.transcript())
  })

  test('views that come back in another order leave the size to who typed last', async () => {
    const conversation = await withViews('s-1')
    await conversation.openView('s-2', 'run-1', 120, 40)
    await conversation.hostSends(input('s-2', 'x'))
    await conversation.clock.advance(100)
    await conversation.loseConnection()
    await reconnect(conversation)
    conversation.transcript()
    await conversation.openView('s-1', 'run-1')
    await conversation.openView('s-2', 'run-1', 120, 40)
    await conversation.clock.advance(1_000)
    expect(conversation.transcript().filter((line) => line.startsWith('resized'))).toEqual([])
  })

  test('is followed by the count of what was typed, before the picture and whether or not anything came', async () => {
    const conversation = await withViews('s-1', 's-2')
    await conversation.hostSends(input('s-1', 'a'))
    await conversation.hostSends(input('s-1', 'b'))
    await conversation.loseConnection()
    await reconnect(conversation)
    conversation.transcript()
    for (const view of ['s-1', 's-2']) {
      await conversation.hostSends(ask(view))
      await conversation.openView(view, 'run-1')
    }
    await conversation.hostSends(close('s-1'))
    await conversation.hostSends(ask('s-1'))
    expectRecorded(conversation.transcript().filter((line) => line.startsWith('→')))
  })

  test('again and again does not make it remember more and more of those who never come back', async () => {
    const conversation = await withViews('s-stays')
    for (let n = 0; n < 6; n++) {
      const views = ['s-stays', ...Array.from({ length: 60 }, (_, at) => `s-${n}-${at}`)]
      for (const view of views) {
        await conversation.openView(view, 'run-1')
        await conversation.hostSends(input(view, 'x'))
      }
      await conversation.loseConnection()
      await reconnect(conversation)
    }
    conversation.transcript()
    for (const view of ['s-stays', 's-0-0', 's-5-59']) await conversation.hostSends(ask(view))
    expectRecorded(conversation.transcript().filter((line) => line.startsWith('→')))
  })

  test('and whose host stays away ends the session', async () => {
    const conversation = await withViews()
    conversation.sandbox('run-1').usage = [snapshot('agent-1')]
    await conversation.loseConnection()
    await conversation.clock.advance(119_000)
    expect(conversation.transcript()).toEqual([])
    await conversation.clock.advance(1_000)
    expect(conversation.transcript()).toEqual(['close run-1'])
    await reconnect(conversation)
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('what a session itself has used is told when there is a line again, whatever its nested agents leave', async () => {
    const conversation = await withViews()
    const nested = Array.from({ length: 100 }, (_, n) => ({ ...snapshot('nested'), subagentId: `a${n}` }))
    conversation.sandbox('run-1').usage = [snapshot('agent-1'), ...nested]
    await conversation.loseConnection()
    await conversation.clock.advance(120_000)
    await reconnect(conversation)
    const told = conversation.transcript().filter((line) => line.startsWith('→ run-usage-snapshot'))
    expect(told).toHaveLength(64)
    expect(told).toContain('→ run-usage-snapshot of agent-1')
  })

  test('a session that ended meanwhile is shown with its end', async () => {
    const conversation = await withViews()
    await conversation.loseConnection()
    await conversation.printOnTerminal('run-1', 'bye')
    await conversation.endSession('run-1', 0)
    await reconnect(conversation)
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('how a session ended is not shown to one more on a line that is full of it, only told', async () => {
    const conversation = await withViews()
    await conversation.loseConnection()
    await conversation.printOnTerminal('run-1', 'bye')
    await conversation.endSession('run-1', 0)
    await reconnect(conversation)
    conversation.transcript()
    conversation.backlog = 4 * 1024 * 1024
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('a boot that is ready when there is no line waits for somebody to ask again', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await conversation.loseConnection()
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await reconnect(conversation)
    await conversation.requestBoot('rq-2', 'run-1')
    expectRecorded(conversation.transcript())
  })
})

describe('a daemon that ends', () => {
  test('waits for a person, when it drains, as for a run', async () => {
    const conversation = await withViews()
    conversation.daemon.drain()
    await conversation.clock.turn()
    await conversation.requestBoot('rq-9', 'run-9')
    await conversation.printOnTerminal('run-1', 'still here')
    expect(conversation.ends).toEqual([])
    await conversation.hostSends(release('run-1'))
    expectRecorded(conversation.transcript())
  })

  const ways: readonly (readonly [
    name: string,
    (conversation: DaemonConversation) => unknown,
    why: string,
  ])[] = [
    ['is stopped', ({ daemon }) => daemon.stopNow(), 'the worker is being stopped'],
    ['hands back what it has', ({ daemon }) => daemon.handBack(), 'the worker is being stopped'],
  ]
  test.each(ways)('closes everything when it %s, and tells what it came to', async (_name, end, why) => {
    const conversation = await withViews()
    conversation.sandbox('run-1').usage = [snapshot('agent-1')]
    end(conversation)
    await conversation.clock.turn()
    expect(conversation.transcript()).toEqual([
      `→ attach-error s-1 (${why})`,
      'close run-1',
      '→ run-usage-snapshot of agent-1',
      'ends: stopped (it was asked to stop)',
    ])
  })

  test('closes everything when it is revoked', async () => {
    const conversation = await withViews()
    await conversation.hostSends({ type: 'revoked', reason: 'gone for good' })
    expectRecorded(conversation.transcript())
  })

  test('does not wait for ever for what does not go', async () => {
    const conversation = await withViews()
    conversation.sandbox('run-1').closesWhenAsked = false
    conversation.daemon.stopNow()
    await conversation.clock.advance(60_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })
})
