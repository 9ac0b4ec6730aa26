/**
 * A real host and a real worker daemon with people at terminals; only the sandbox is scripted. The sandbox echoes its
 * input, and every typed line adds one entry of usage.
 */
import { describe, expect, test } from '@jest/globals'
import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon } from '../../../actors/daemon/daemon-context.ts'
import { ATTACH_HANDED_OVER_CHARS_MAX } from '../../../actors/terminals/terminal-view.ts'
import type {
  ConnectionListener,
  DialledConnection,
  Execution,
  Executor,
  WorkerIdentity,
} from '../../../core/daemon/ports.ts'
import type {
  BootedSandbox,
  BootRequest,
  Screen,
  TerminalSessionListener,
} from '../../../core/daemon/terminal.ts'
import type { WorkerReceiver } from '../../../core/ports/connections.ts'
import { yes } from '../../../core/result.ts'
import { ATTACH_INPUT_BYTES_AT_ONCE } from '../../../protocol/limits.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import {
  type HostConversation,
  pairingToken,
  startHost,
  ticket,
} from '../../conversations/host-conversation.ts'
import { openTerminal, type Person, withAgent } from '../../conversations/terminal-conversation.ts'
import { createHostClock } from '../../support/confirmed-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const CLEAR = '\u001bc'

/** A screen that serializes to everything that was printed. */
function screen(): Screen {
  let all = ''
  return {
    write: async (data) => {
      all += data
    },
    resize: () => {},
    serialize: () => CLEAR + all,
    close: () => {},
  }
}

/** A sandbox that echoes input; its usage outlives the session, as on a disk. */
class EchoSandbox implements BootedSandbox {
  readonly sessionId = 'session-1'
  listener: TerminalSessionListener | undefined
  closed = 0
  /** All input that reached the session. */
  typed = ''
  readonly #usage: UsageEntry[]
  readonly #now: () => number

  constructor(used: UsageEntry[], now: () => number) {
    this.#usage = used
    this.#now = now
  }

  open(_: unknown, listener: TerminalSessionListener) {
    this.listener = listener
    listener.onOutput('$ ')
    const idle = { resize: () => {}, pause: () => {}, resume: () => {} }
    return { ...idle, input: (data: string) => this.#typed(data) }
  }

  async close() {
    this.closed += 1
    return [{ projectKey: '-work', sessionId: 'session-1', entries: this.#usage }]
  }

  #typed(data: string): void {
    this.typed += data
    this.listener?.onOutput(data)
    if (data === 'exit\r') this.listener?.onExit(0)
    else if (data.endsWith('\r')) this.#usage.push(this.#entry())
  }

  #entry(): UsageEntry {
    return {
      id: `entry-${this.#usage.length}`,
      at: new Date(this.#now()).toISOString(),
      model: 'm',
      inputTokens: 10,
      outputTokens: 1,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      costUsd: 0.5,
    }
  }
}

const instantExecution: Execution = {
  prepare: async () => yes({ sandbox: { id: 'sb-1' }, agentSessionId: 'session-1' }),
  runAgent: async () => ({ verdict: 'done' }),
  finish: async () => ({
    status: 'completed',
    costs: [],
    agentSessionId: 'session-1',
    sandbox: { id: 'sb-1' },
  }),
  stop: () => {},
  whenExited: async () => {},
}

interface SimulatedLink {
  readonly listener: ConnectionListener
  socket: WorkerReceiver | undefined
  open: boolean
  /** The directions in which frames get lost without either end noticing. */
  broken: 'not' | 'both' | 'to the worker' | 'to the host'
}

class DaemonMachine {
  readonly boots: BootRequest[] = []
  readonly sandboxes: EchoSandbox[] = []
  readonly daemon: Daemon
  /** Whether a new connection reaches the host. */
  isHostReachable = true
  /** False: a worker of an earlier release, which does not count input frames. */
  countsInput = true
  /** The link breaks silently as soon as it has carried a frame of this type. */
  breaksAfter: string | undefined
  readonly #usage: UsageEntry[] = []
  readonly #host: HostConversation
  #link: SimulatedLink | undefined

  constructor(host: HostConversation) {
    this.#host = host
    let kept: Parameters<WorkerIdentity['saveCredential']>[0] | undefined
    const pairing = pairingToken(host)
    const executor: Executor = {
      refusalOf: async () => undefined,
      start: () => instantExecution,
      recover: async () => ({}),
      boot: async (order) => {
        this.boots.push(order)
        const sandbox = new EchoSandbox(this.#usage, () => host.clock.now())
        this.sandboxes.push(sandbox)
        return yes(sandbox)
      },
      discard: async () => {},
      reclaim: async () => [],
    }
    this.daemon = createDaemon({
      clock: host.clock,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0.5 },
      log: createRecordingLog(),
      meters: noMeters,
      database: new MemoryControlDatabase(host.clock),
      dialer: { dial: (listener) => this.#dial(listener) },
      identity: {
        credential: () => kept,
        pairingToken: () => (kept === undefined ? pairing : undefined),
        saveCredential: async (credential) => {
          kept = credential
        },
        deletePairingToken: async () => {},
        deleteCredential: async () => {},
      },
      executor,
      hostClock: createHostClock(host.clock),
      makeScreen: screen,
      capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
      name: 'anvil',
      concurrency: 2,
      version: '0.1.0',
      onEnd: () => {},
    })
    this.daemon.start()
  }

  drop(): void {
    const link = this.#link
    this.#link = undefined
    if (link === undefined || !link.open) return
    link.open = false
    link.socket?.onClosed()
    link.listener.onClose('the connection broke')
  }

  /** Breaks the link without a close, so each end must notice by itself. A broken direction stays broken. */
  breakSilently(how: SimulatedLink['broken']): void {
    const link = this.#link
    if (link !== undefined) link.broken = link.broken === 'not' ? how : 'both'
  }

  #dial(listener: ConnectionListener): DialledConnection {
    const link: SimulatedLink = { listener, socket: undefined, open: true, broken: 'not' }
    this.#link = link
    const deliver = (run: () => void) => void this.#host.clock.after(1, () => link.open && run())
    deliver(() => this.#connect(link, deliver))
    return {
      send: (text) =>
        deliver(() => {
          if (!isDelivered(link, 'to the host')) return
          this.#onCarried(link, text)
          link.socket?.onText(text)
        }),
      backlogBytes: () => 0,
      close: () => {
        if (!link.open) return
        link.open = false
        if (isDelivered(link, 'to the host')) link.socket?.onClosed()
      },
    }
  }

  #onCarried(link: SimulatedLink, text: string): void {
    if (this.breaksAfter === undefined || !text.startsWith(`{"type":"${this.breaksAfter}"`)) return
    this.breaksAfter = undefined
    link.broken = 'both'
  }

  #connect(link: SimulatedLink, deliver: (run: () => void) => void): void {
    const known = (text: string) =>
      this.countsInput ? text : text.replace('"type":"attach-ask"', '"type":"of-a-later-host"')
    const connected = this.isHostReachable
      ? this.#host.hostApi.connectWorker({
          address: 'here',
          send: (text) => {
            deliver(() => {
              if (!isDelivered(link, 'to the worker')) return
              this.#onCarried(link, text)
              link.listener.onText(known(text))
            })
            return true
          },
          close: () =>
            deliver(
              () =>
                isDelivered(link, 'to the worker') && link.listener.onClose('the host closed the connection'),
            ),
        })
      : undefined
    if (connected?.ok) {
      link.socket = connected.value
      link.listener.onOpen()
    } else {
      link.open = false
      link.listener.onClose('the host is down')
    }
  }
}

const isDelivered = ({ broken: dead }: SimulatedLink, direction: 'to the worker' | 'to the host'): boolean =>
  dead === 'not' || (dead !== 'both' && dead !== direction)

async function startWithRetainedRun() {
  const host = await startHost(withAgent)
  const machine = new DaemonMachine(host)
  host.tracker.put(ticket('ENG-1'))
  await host.clock.advance(5_000)
  const run = host.runOf('ENG-1')
  expect(run.status).toBe('completed')
  return { host, machine, runId: run.id }
}

const aSecond = (host: HostConversation) => host.clock.advance(1_000)
/** The content of a person's terminal: everything since the last clear sequence. */
const screenOf = ({ screen: all }: Person): string => all.slice(all.lastIndexOf(CLEAR) + CLEAR.length)

test('two people share one session and see the same; it closes when both have left, and its cost is in the run', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  await anna.type('hello\r')
  await aSecond(host)
  const ben = await openTerminal(host, runId, 'Ben')
  await aSecond(host)
  await ben.type('me too\r')
  await aSecond(host)
  expect([screenOf(anna), screenOf(ben)]).toEqual(['$ hello\rme too\r', '$ hello\rme too\r'])
  expect(machine.boots.map(({ credentials }) => credentials)).toEqual([
    { agent: { kind: 'api-key', value: 'sk-agent' } },
  ])
  const inDemand = () => {
    const demand = host.hostApi.demand(host.run(runId).sandbox.workerId ?? '')
    return demand.ok && demand.value.worker?.attachSessions
  }
  // Also before the worker's next heartbeat reports them.
  expect(inDemand()).toBe(2)
  expect(host.hostApi.fleet().workers).toMatchObject([{ attachSessions: 2, attachedRuns: [runId] }])
  await host.clock.advance(20_000)
  expect(inDemand()).toBe(2)
  await anna.leave()
  await ben.leave()
  await host.clock.advance(25_000)
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1])
  expect(host.run(runId).costs.map(({ label, costUsd }) => `${label}: ${costUsd}`)).toEqual(['attach 1: 1'])
})

test('a lost connection neither loses nor repeats anything', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  await anna.type('a')
  await aSecond(host)
  machine.isHostReachable = false
  machine.drop()
  await aSecond(host)
  machine.sandboxes[0]?.listener?.onOutput('(printed meanwhile)')
  await anna.type('b')
  await host.clock.advance(20_000)
  expect(anna.screen).toContain('waiting for it to come back')
  machine.isHostReachable = true
  await host.clock.advance(60_000)
  expect(screenOf(anna)).toBe('$ a(printed meanwhile)b')
  expect(machine.boots).toHaveLength(1)
})

test('pasting more than a session accepts loses the rest of the input, but not the session', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  const ben = await openTerminal(host, runId, 'Ben')
  await aSecond(host)
  const piece = 'x'.repeat(64 * 1024)
  for (let chars = 0; chars <= ATTACH_INPUT_BYTES_AT_ONCE; chars += piece.length) await anna.type(piece)
  await aSecond(host)
  await ben.type('b')
  await aSecond(host)
  expect([anna.closed, ben.closed, machine.sandboxes[0]?.closed]).toEqual([undefined, undefined, 0])
  expect(anna.screen.includes('\u0007')).toBe(true)
  expect(ben.screen).not.toContain('\u0007')
  expect(ben.screen.at(-1)).toBe('b')
})

test('the session ends for everyone, and the next one starts fresh', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  await anna.type('exit\r')
  await aSecond(host)
  expect(anna.seen.at(-1)).toEqual({ type: 'exit', code: 0 })
  const again = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  expect(screenOf(again)).toBe('$ ')
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1, 0])
})

test('a person who reloads the page while the session ends sees how it ended', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  await anna.leave()
  await aSecond(host)
  machine.sandboxes[0]?.listener?.onOutput('bye')
  machine.sandboxes[0]?.listener?.onExit(3)
  await aSecond(host)
  const again = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  expect([screenOf(again), again.seen.at(-1)]).toEqual(['$ bye', { type: 'exit', code: 3 }])
  await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  expect(machine.boots).toHaveLength(2)
})

test('released and resumed in the same tick, the sandbox is booted again', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  void host.hostApi.releaseRun(runId)
  const asked = host.hostApi.resumeRun(runId)
  await aSecond(host)
  expect((await asked).ok).toBe(true)
  expect(anna.closed?.code).toBe(1008)
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1, 0])
})

test('a host that restarts within the worker’s grace finds the session unchanged', async () => {
  const { host, machine, runId } = await startWithRetainedRun()
  const anna = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  await anna.type('a')
  await aSecond(host)
  await host.restart()
  machine.drop()
  await host.clock.advance(30_000)
  const again = await openTerminal(host, runId, 'Anna')
  await aSecond(host)
  expect(screenOf(again)).toBe('$ a')
  expect(machine.boots).toHaveLength(1)
})

describe('input typed on a connection that is already dead', () => {
  /** Waits until both ends have noticed the silence and the worker has reconnected. */
  const MENDED_MS = 90_000

  test('reaches the session once, in order, after the reconnect', async () => {
    const { host, machine, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await aSecond(host)
    await anna.type('before,')
    await aSecond(host)
    machine.breakSilently('both')
    await anna.type('into the dead line,')
    await aSecond(host)
    await anna.type('and more,')
    await host.clock.advance(MENDED_MS)
    await anna.type('after')
    await aSecond(host)
    expect(machine.sandboxes[0]?.typed).toBe('before,into the dead line,and more,after')
    expect(screenOf(anna)).toBe('$ before,into the dead line,and more,after')
  })

  test('and has arrived, although the acknowledgement was lost, is not resent', async () => {
    const { host, machine, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await aSecond(host)
    machine.breakSilently('to the host')
    await anna.type('taken in')
    await aSecond(host)
    expect(machine.sandboxes[0]?.typed).toBe('taken in')
    await host.clock.advance(MENDED_MS)
    await anna.type(' once')
    await aSecond(host)
    expect(machine.sandboxes[0]?.typed).toBe('taken in once')
  })

  test.each([
    'register',
    'registered',
    'attach-open',
    'attach-ask',
    'attach-data',
    'attach-taken',
    'attach-input',
  ])('nor is it lost or doubled when the next line is dead after its first %s', async (type) => {
    const { host, machine, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await aSecond(host)
    await anna.type('before,')
    await aSecond(host)
    machine.breakSilently('both')
    await anna.type('into the dead line,')
    machine.breaksAfter = type
    await host.clock.advance(MENDED_MS)
    await anna.type('and the next,')
    await host.clock.advance(MENDED_MS)
    await anna.type('after')
    await aSecond(host)
    expect(machine.breaksAfter).toBeUndefined()
    expect(machine.sandboxes[0]?.typed).toBe('before,into the dead line,and the next,after')
  })

  test('is lost when the worker does not count input, but nothing is repeated or delayed for long', async () => {
    const { host, machine, runId } = await startWithRetainedRun()
    machine.countsInput = false
    const anna = await openTerminal(host, runId, 'Anna')
    await aSecond(host)
    await anna.type('before,')
    await aSecond(host)
    machine.breakSilently('both')
    await anna.type('lost,')
    await host.clock.advance(MENDED_MS)
    await anna.type('after')
    await host.clock.advance(5_000)
    expect(machine.sandboxes[0]?.typed).toBe('before,after')
    // The worker is not asked a second time.
    machine.breakSilently('both')
    await host.clock.advance(MENDED_MS)
    await anna.type(' all')
    await aSecond(host)
    expect(machine.sandboxes[0]?.typed).toBe('before,after all')
  })

  test('beyond the resend buffer loses its beginning, and nothing else', async () => {
    const { host, machine, runId } = await startWithRetainedRun()
    const anna = await openTerminal(host, runId, 'Anna')
    await aSecond(host)
    machine.breakSilently('both')
    const pieces = Array.from(
      { length: 20 },
      (_, at) => `${String(at).padStart(2, '0')}${'x'.repeat(ATTACH_HANDED_OVER_CHARS_MAX / 16)}`,
    )
    for (const piece of pieces) await anna.type(piece)
    await host.clock.advance(MENDED_MS)
    await anna.type('end')
    await aSecond(host)
    const kept = machine.sandboxes[0]?.typed ?? ''
    expect(kept.length).toBeGreaterThan(ATTACH_HANDED_OVER_CHARS_MAX / 2)
    expect(`${pieces.join('')}end`.endsWith(kept)).toBe(true)
  })

  const stories = Number(process.env.TYPED_RUNS ?? 20)

  test.each([true, false])(
    'random breaks repeat no input, and lose none with a worker that counts it (counts: %s)',
    async (counts) => {
      const seed = drawSeed()
      for (let story = 0; story < stories; story++) {
        const inputs = await aStory(new Random(seed + story), counts)
        const at = { seed: seed + story }
        for (const { typed, arrived } of inputs) {
          if (counts) expect({ ...at, arrived }).toEqual({ ...at, arrived: typed })
          // In order and at most once each; only a worker of an earlier release loses input.
          else
            expect({ ...at, arrived }).toEqual({
              ...at,
              arrived: typed.filter((word) => new Set<string>(arrived).has(word)),
            })
        }
      }
    },
  )

  async function aStory(random: Random, counts: boolean) {
    const { host, machine, runId } = await startWithRetainedRun()
    machine.countsInput = counts
    const people = { a: await openTerminal(host, runId, 'Anna'), b: await openTerminal(host, runId, 'Ben') }
    await aSecond(host)
    const typed: Record<'a' | 'b', string[]> = { a: [], b: [] }
    for (let step = 0; step < 25; step++) {
      const action = random.below(10)
      if (action < 6) {
        const who = random.pick(['a', 'b'] as const)
        const word = `${who}${typed[who].length},`
        typed[who].push(word)
        await people[who].type(word)
      } else if (action === 6)
        machine.breakSilently(random.pick(['both', 'to the worker', 'to the host'] as const))
      else if (action === 7) machine.drop()
      else await host.clock.advance(random.pick([0, 1, 2, 3, 500, 20_000, 50_000]))
      // No longer than a session waits for its worker.
      if (step % 5 === 4) await host.clock.advance(random.chance(0.5) ? MENDED_MS : 1)
    }
    await host.clock.advance(2 * MENDED_MS)
    expect([people.a.closed, people.b.closed, machine.boots.length]).toEqual([undefined, undefined, 1])
    const arrived = machine.sandboxes[0]?.typed ?? ''
    return (['a', 'b'] as const).map((who) => ({
      typed: typed[who],
      arrived: arrived.match(new RegExp(`${who}\\d+,`, 'g')) ?? [],
    }))
  }
})
