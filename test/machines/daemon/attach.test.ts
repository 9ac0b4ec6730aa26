/** Transcripts of a worker and its host about resumed sandboxes and their terminals. */
import { describe, expect, test } from '@jest/globals'
import { no, yes } from '../../../core/result.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import { ATTACH_DATA_CHARS_MAX, ATTACH_INPUT_BYTES_AT_ONCE } from '../../../protocol/limits.ts'
import { CURSOR_QUERY, CURSOR_REPLY, createPlainScreen } from '../../support/plain-screen.ts'
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

/** A daemon with a booted sandbox and open views. */
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

/** Advances the clock on a connection that stays up. */
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
  test('is transcribed from the boot to its end', async () => {
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

  test('that is requested again is ready at once', async () => {
    const conversation = await withViews()
    await conversation.requestBoot('rq-2', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('two requests at once share one boot', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await conversation.requestBoot('rq-2', 'run-1')
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('that cannot be booted reports the reason, and may be requested again', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    conversation.executor.pendingBoot.resolve(no('gone', 'its disk was reclaimed'))
    await conversation.requestBoot('rq-1', 'run-1')
    conversation.executor.pendingBoot = undefined
    await conversation.requestBoot('rq-2', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('of a run that is executing is not booted, and a run with a booted sandbox is not executed', async () => {
    const conversation = await online()
    await conversation.dispatch('ls-1')
    await conversation.boot('run-2')
    conversation.transcript()
    await conversation.requestBoot('rq-2', 'run-1')
    await conversation.dispatch('ls-2', 'run-2')
    expectRecorded(conversation.transcript())
  })

  test('ends with a killed worker, and its views receive the reason', async () => {
    const conversation = await withViews()
    await conversation.restart()
    await reconnect(conversation)
    conversation.transcript()
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('that is closing or closed is not reported as a worker restart', async () => {
    const conversation = await withViews()
    conversation.sandbox('run-1').closesWhenAsked = false
    await conversation.hostSends(release('run-1'))
    conversation.transcript()
    await conversation.openView('s-2', 'run-1')
    conversation.sandbox('run-1').closed.resolve()
    await conversation.clock.settle()
    await conversation.openView('s-3', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('that cannot be started reports that on the terminal', async () => {
    const conversation = await online()
    const sandbox = await conversation.boot('run-1')
    const { open } = sandbox
    sandbox.open = (size, listener) => {
      const session = open.call(sandbox, size, listener)
      listener.onOutput('no such program')
      listener.onExit(127)
      return session
    }
    conversation.transcript()
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })
})

describe('several views', () => {
  test('share one terminal, and a late view receives the whole screen first', async () => {
    const conversation = await withViews('s-1')
    await conversation.printOnTerminal('run-1', 'one ')
    await conversation.openView('s-2', 'run-1', 120, 40)
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('a view that is opened again receives the screen again, and no output twice', async () => {
    const conversation = await withViews('s-1')
    await conversation.printOnTerminal('run-1', 'one ')
    await conversation.openView('s-1', 'run-1')
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('the terminal has the size of the view that typed last', async () => {
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

  test('resizes of a dragged window are collected', async () => {
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

  test('a view of another run is refused', async () => {
    const conversation = await withViews('s-1')
    await conversation.boot('run-2')
    conversation.transcript()
    await conversation.openView('s-1', 'run-2')
    expectRecorded(conversation.transcript())
  })
})

describe('output', () => {
  test('reaches views only as far as it draws; queries are answered by the worker', async () => {
    const conversation = await withViews('s-1', 's-2')
    await conversation.printOnTerminal('run-1', `a\x1b]52;c;c2VjcmV0\x07b${CURSOR_QUERY}c`)
    expect(conversation.transcript()).toEqual([
      '→ attach-data s-1 abc',
      '→ attach-data s-2 abc',
      `typed ${JSON.stringify(CURSOR_REPLY)}`,
    ])
  })

  test('is split into frames of limited length, never inside a character', async () => {
    const conversation = await withViews()
    await conversation.printOnTerminal('run-1', `x${'🙂'.repeat(40_000)}`)
    const data = conversation.frames
      .flatMap((frame) => (frame.type === 'attach-data' ? [frame.data] : []))
      .slice(1)
    expect(data.map(({ length }) => length)).toEqual([65_535, 14_466])
    expect(data.join('')).toBe(`x${'🙂'.repeat(40_000)}`)
    expect(data.every((piece) => !/[\ud800-\udbff]$/.test(piece))).toBe(true)
  })

  test('waits in the session while the backlog is full', async () => {
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

  test('of typing is sent even when reports fill the backlog', async () => {
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

  test('for a view that opens during a full backlog follows its screen, without a gap', async () => {
    const conversation = await withViews('s-1')
    conversation.backlog = 300_000
    await conversation.openView('s-2', 'run-1')
    await conversation.printOnTerminal('run-1', 'one')
    conversation.backlog = 0
    await conversation.clock.advance(10)
    await conversation.printOnTerminal('run-1', 'two')
    expectRecorded(conversation.transcript())
  })

  test('is in the screen only after all other views have received it', async () => {
    let drawn = () => {}
    const conversation = await online({
      makeScreen: () => {
        let printed = ''
        return {
          write: (data) =>
            new Promise((resolve) => {
              drawn = () => {
                printed += data
                resolve()
              }
            }),
          resize: () => {},
          serialize: () => `[${printed}]`,
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
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('is not serialized repeatedly while the backlog is full', async () => {
    let serializations = 0
    const conversation = await online({
      makeScreen: () => ({
        write: async () => {},
        resize: () => {},
        serialize: () => `${++serializations}`,
        close: () => {},
      }),
    })
    await conversation.boot('run-1')
    conversation.backlog = 300_000
    await conversation.openView('s-1', 'run-1')
    await conversation.clock.advance(1_000)
    expect(serializations).toBe(0)
    conversation.backlog = 0
    await conversation.clock.advance(10)
    expect(serializations).toBe(1)
  })

  test('rings the bell when an endless paste is dropped', async () => {
    const conversation = await withViews('s-1', 's-2')
    conversation.hiddenFrames = [...conversation.hiddenFrames, 'attach-input']
    const accepted = ATTACH_INPUT_BYTES_AT_ONCE / ATTACH_DATA_CHARS_MAX
    for (let n = 0; n <= accepted; n++)
      await conversation.hostSends(input('s-1', 'x'.repeat(ATTACH_DATA_CHARS_MAX)))
    await conversation.clock.advance(1_000)
    await conversation.hostSends(input('s-2', 'y'))
    await conversation.hostSends(input('s-1', 'z'))
    expectRecorded(conversation.transcript().slice(accepted))
  })

  test('of a session that queries without end does not block an interrupt', async () => {
    const conversation = await online({
      makeScreen: (size, answer) => ({
        ...createPlainScreen(size, answer),
        write: async () => answer('x'.repeat(16 * 1024)),
      }),
    })
    await conversation.boot('run-1', 's-1')
    for (let n = 0; n < 64; n++) await conversation.printOnTerminal('run-1', CURSOR_QUERY)
    conversation.transcript()
    await conversation.hostSends(input('s-1', '\u0003'))
    expect(conversation.transcript()).toContain('typed "\\u0003"')
  })
})

describe('the end', () => {
  test('a sandbox without views is closed after the time of a page reload', async () => {
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

  test('a sandbox without any view is closed', async () => {
    const conversation = await online()
    await conversation.boot('run-1')
    conversation.transcript()
    await advanceConnected(conversation, 119_000)
    expect(conversation.transcript()).toEqual([])
    await advanceConnected(conversation, 1_000)
    expect(conversation.transcript()).toEqual(['close run-1'])
  })

  test('a release closes at once, and a second release does nothing', async () => {
    const conversation = await withViews()
    await conversation.hostSends(release('run-1'))
    await conversation.hostSends(release('run-1'))
    await conversation.hostSends(release('run-7'))
    expectRecorded(conversation.transcript())
  })

  test('a release during the boot closes the sandbox as soon as it is booted', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await conversation.hostSends(release('run-1'))
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('a release and a request during the boot boot the sandbox again', async () => {
    const conversation = await online()
    conversation.executor.pendingBoot = new ManualPromise()
    await conversation.requestBoot('rq-1', 'run-1')
    await Promise.all([conversation.hostSends(release('run-1')), conversation.requestBoot('rq-2', 'run-1')])
    conversation.executor.pendingBoot.resolve(yes(undefined))
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('a request during closing boots the sandbox again afterwards', async () => {
    const conversation = await withViews()
    const sandbox = conversation.sandbox('run-1')
    sandbox.closesWhenAsked = false
    await conversation.hostSends(release('run-1'))
    await conversation.requestBoot('rq-2', 'run-1')
    conversation.transcript()
    sandbox.closed.resolve()
    await conversation.clock.settle()
    expectRecorded(conversation.transcript())
  })

  test('a discard closes the sandbox first', async () => {
    const conversation = await withViews()
    const sandbox = conversation.sandbox('run-1')
    sandbox.closesWhenAsked = false
    await conversation.hostSends({ type: 'discard', runId: 'run-1' })
    expectRecorded(conversation.transcript())
    sandbox.closed.resolve()
    await conversation.clock.settle()
    expect(conversation.transcript()).toEqual(['discard run-1'])
  })

  test('a booted sandbox is protected from reclaiming, and from a dispatch that makes room', async () => {
    const conversation = await withViews()
    await advanceConnected(conversation, 320_000)
    expect(conversation.executor.protectedRuns.at(-1)).toEqual(['run-1'])
    const protectedRuns: string[] = []
    conversation.executor.refusalOf = async (_, isProtected) => {
      protectedRuns.push(...['run-1', 'run-9'].filter((runId) => isProtected(runId)))
      return undefined
    }
    await conversation.dispatch('ls-8')
    expect(protectedRuns).toEqual(['run-1'])
  })
})

describe('a lost connection', () => {
  test('closes the views; the session continues, and the views receive the screen again', async () => {
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

  test('keeps the size of the view that typed last, in whatever order views return', async () => {
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

  test('is followed by the count of inputs, before the screen', async () => {
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

  test('repeated many times does not collect views that never return', async () => {
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

  test('with an absent host ends the session', async () => {
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

  test('delays the usage of a session until the next connection; usage of subagents is dropped first', async () => {
    const conversation = await withViews()
    const nested = Array.from({ length: 100 }, (_, n) => ({ ...snapshot('nested'), subagentId: `a${n}` }))
    conversation.sandbox('run-1').usage = [snapshot('agent-1'), ...nested]
    await conversation.loseConnection()
    await conversation.clock.advance(120_000)
    await reconnect(conversation)
    const snapshots = conversation.transcript().filter((line) => line.startsWith('→ run-usage-snapshot'))
    expect(snapshots).toHaveLength(64)
    expect(snapshots).toContain('→ run-usage-snapshot of agent-1')
  })

  test('shows the final screen of a session that ended meanwhile', async () => {
    const conversation = await withViews()
    await conversation.loseConnection()
    await conversation.printOnTerminal('run-1', 'bye')
    await conversation.endSession('run-1', 0)
    await reconnect(conversation)
    await conversation.openView('s-1', 'run-1')
    expectRecorded(conversation.transcript())
  })

  test('with a full backlog sends only the exit code of an ended session', async () => {
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

  test('during a boot leaves the sandbox ready for the next request', async () => {
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
  test('waits for resumed sandboxes when it drains, as for runs', async () => {
    const conversation = await withViews()
    conversation.daemon.drain()
    await conversation.clock.settle()
    await conversation.requestBoot('rq-9', 'run-9')
    await conversation.printOnTerminal('run-1', 'still here')
    expect(conversation.ends).toEqual([])
    await conversation.hostSends(release('run-1'))
    expectRecorded(conversation.transcript())
  })

  const stops: readonly (readonly [name: string, stop: (conversation: DaemonConversation) => unknown])[] = [
    ['is stopped', ({ daemon }) => daemon.stopNow()],
    ['hands back its executions', ({ daemon }) => daemon.handBack()],
  ]
  test.each(stops)('closes all sandboxes when it %s, and reports their usage', async (_name, stop) => {
    const conversation = await withViews()
    conversation.sandbox('run-1').usage = [snapshot('agent-1')]
    stop(conversation)
    await conversation.clock.settle()
    expect(conversation.transcript()).toEqual([
      expect.stringMatching(/^→ attach-error s-1 \(.*stopped\)$/),
      'close run-1',
      '→ run-usage-snapshot of agent-1',
      'ends: stopped (it was asked to stop)',
    ])
  })

  test('closes all sandboxes when it is revoked', async () => {
    const conversation = await withViews()
    await conversation.hostSends({ type: 'revoked', reason: 'gone for good' })
    expectRecorded(conversation.transcript())
  })

  test('does not wait for ever for a sandbox that does not close', async () => {
    const conversation = await withViews()
    conversation.sandbox('run-1').closesWhenAsked = false
    conversation.daemon.stopNow()
    await conversation.clock.advance(60_000)
    expect(conversation.ends.map(({ is }) => is)).toEqual(['stopped'])
  })
})
