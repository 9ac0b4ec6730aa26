/**
 * A real host and a real worker daemon with a person between them: only the sandbox is held in the hand. It echoes what
 * is typed, and each line that is typed is used up by its agent.
 */
import { describe, expect, test } from '@jest/globals'
import type { WorkerLine } from '../../../actors/api/host-api.ts'
import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon } from '../../../actors/daemon/daemon-dependencies.ts'
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
import { yes } from '../../../core/result.ts'
import { ATTACH_HANDED_OVER_CHARS_MAX } from '../../../protocol/limits.ts'
import type { UsageEntry } from '../../../protocol/usage.ts'
import { MemoryControlDatabase } from '../../../store/memory/control-database.ts'
import { ticket, token, type Yarn, yarn } from '../../conversations/host-conversation.ts'
import { type Person, sits, withAgent } from '../../conversations/terminal-conversation.ts'
import { drawnSeed, Random } from '../../support/random.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

const CLEAR = '\u001bc'

/** Draws what was printed, as it was printed. */
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

/** The sandbox, with its transcript on a disk that outlives the session. */
class HandSandbox implements BootedSandbox {
  ear: TerminalSessionListener | undefined
  closed = 0
  /** Whatever reached the session. */
  typed = ''
  readonly #used: UsageEntry[]
  readonly #now: () => number

  constructor(used: UsageEntry[], now: () => number) {
    this.#used = used
    this.#now = now
  }

  open(_: unknown, ear: TerminalSessionListener) {
    this.ear = ear
    ear.onOutput('$ ')
    const idle = { resize: () => {}, pause: () => {}, resume: () => {} }
    return { ...idle, input: (data: string) => this.#typed(data) }
  }

  async close() {
    this.closed += 1
    return [{ projectKey: '-work', sessionId: 'session-1', entries: this.#used }]
  }

  #typed(data: string): void {
    this.typed += data
    this.ear?.onOutput(data)
    if (data === 'exit\r') this.ear?.onExit(0)
    else if (data.endsWith('\r')) this.#used.push(this.#entry())
  }

  #entry(): UsageEntry {
    return {
      id: `entry-${this.#used.length}`,
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

const quick: Execution = {
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

interface Wire {
  readonly ear: ConnectionListener
  line: WorkerLine | undefined
  open: boolean
  /** What is said on it goes nowhere, and nobody hears that: in neither direction, or in one. */
  dead: 'not' | 'both' | 'to the worker' | 'to the host'
}

class Machine {
  readonly boots: BootRequest[] = []
  readonly sandboxes: HandSandbox[] = []
  readonly daemon: Daemon
  /** Nobody is reached while it is not. */
  reachable = true
  /** Of an earlier release: it does not know how to say what it has had. */
  counts = true
  /** The next line dies as soon as it has carried a frame of this type. */
  diesAfter: string | undefined
  readonly #used: UsageEntry[] = []
  readonly #y: Yarn
  #wire: Wire | undefined

  constructor(y: Yarn) {
    this.#y = y
    let kept: Parameters<WorkerIdentity['saveCredential']>[0] | undefined
    const pairing = token(y)
    const executor: Executor = {
      refusalOf: async () => undefined,
      start: () => quick,
      recover: async () => ({}),
      boot: async (order) => {
        this.boots.push(order)
        const sandbox = new HandSandbox(this.#used, () => y.clock.now())
        this.sandboxes.push(sandbox)
        return yes(sandbox)
      },
      discard: async () => {},
      reclaim: async () => {},
    }
    this.daemon = createDaemon({
      clock: y.clock,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0.5 },
      log: keptLog(),
      meters: noMeters,
      database: new MemoryControlDatabase(y.clock),
      dialer: { dial: (ear) => this.#dial(ear) },
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
    const wire = this.#wire
    this.#wire = undefined
    if (wire === undefined || !wire.open) return
    wire.open = false
    wire.line?.closed()
    wire.ear.onClose('the line broke')
  }

  /** Without a sound: each end finds out by itself. A way that is dead stays so, for a line delivers all or the beginning. */
  deaden(how: Wire['dead']): void {
    const wire = this.#wire
    if (wire !== undefined) wire.dead = wire.dead === 'not' ? how : 'both'
  }

  #dial(ear: ConnectionListener): DialledConnection {
    const wire: Wire = { ear, line: undefined, open: true, dead: 'not' }
    this.#wire = wire
    const deliver = (run: () => void) => void this.#y.clock.after(1, () => wire.open && run())
    deliver(() => this.#connect(wire, deliver))
    return {
      send: (text) =>
        deliver(() => {
          if (!reaches(wire, 'to the host')) return
          this.#carried(wire, text)
          wire.line?.receive(text)
        }),
      backlogBytes: () => 0,
      close: () => {
        if (!wire.open) return
        wire.open = false
        if (reaches(wire, 'to the host')) wire.line?.closed()
      },
    }
  }

  #carried(wire: Wire, text: string): void {
    if (this.diesAfter === undefined || !text.startsWith(`{"type":"${this.diesAfter}"`)) return
    this.diesAfter = undefined
    wire.dead = 'both'
  }

  #connect(wire: Wire, deliver: (run: () => void) => void): void {
    const known = (text: string) =>
      this.counts ? text : text.replace('"type":"attach-ask"', '"type":"of-a-later-host"')
    const connected = this.reachable
      ? this.#y.desk.workerConnected({
          address: 'here',
          send: (text) => {
            deliver(() => {
              if (!reaches(wire, 'to the worker')) return
              this.#carried(wire, text)
              wire.ear.onText(known(text))
            })
            return true
          },
          close: () =>
            deliver(() => reaches(wire, 'to the worker') && wire.ear.onClose('the host closed the line')),
        })
      : undefined
    if (connected?.ok) {
      wire.line = connected.value
      wire.ear.onOpen()
    } else {
      wire.open = false
      wire.ear.onClose('the host is down')
    }
  }
}

const reaches = ({ dead }: Wire, way: 'to the worker' | 'to the host'): boolean =>
  dead === 'not' || (dead !== 'both' && dead !== way)

async function aRetainedRun() {
  const y = await yarn(withAgent)
  const machine = new Machine(y)
  y.tracker.put(ticket('ENG-1'))
  await y.clock.advance(5_000)
  const run = y.runOf('ENG-1')
  expect(run.status).toBe('completed')
  return { y, machine, runId: run.id }
}

const soon = (y: Yarn) => y.clock.advance(1_000)
/** What is on a person's terminal: everything since it was cleared last. */
const shownTo = ({ screen: all }: Person): string => all.slice(all.lastIndexOf(CLEAR) + CLEAR.length)

test('two people share one session, see the same, and it is closed when both have left; what they used is on the run', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  await anna.type('hello\r')
  await soon(y)
  const ben = await sits(y, runId, 'Ben')
  await soon(y)
  await ben.type('me too\r')
  await soon(y)
  expect([shownTo(anna), shownTo(ben)]).toEqual(['$ hello\rme too\r', '$ hello\rme too\r'])
  expect(machine.boots.map(({ credentials }) => credentials)).toEqual([
    { agent: { kind: 'api-key', value: 'sk-agent' } },
  ])
  const inDemand = () => {
    const demand = y.desk.demand(y.run(runId).sandbox.workerId ?? '')
    return demand.ok && demand.value.worker.attachSessions
  }
  // Also before its worker's next heartbeat tells of them.
  expect(inDemand()).toBe(2)
  await y.clock.advance(20_000)
  expect(inDemand()).toBe(2)
  await anna.leave()
  await ben.leave()
  await y.clock.advance(25_000)
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1])
  expect(y.run(runId).costs.map(({ label, costUsd }) => `${label}: ${costUsd}`)).toEqual(['attach 1: 1'])
})

test('a break of the line loses and doubles nothing', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  await anna.type('a')
  await soon(y)
  machine.reachable = false
  machine.drop()
  await soon(y)
  machine.sandboxes[0]?.ear?.onOutput('(printed meanwhile)')
  await anna.type('b')
  await y.clock.advance(20_000)
  expect(anna.screen).toContain('waiting for it to come back')
  machine.reachable = true
  await y.clock.advance(60_000)
  expect(shownTo(anna)).toBe('$ a(printed meanwhile)b')
  expect(machine.boots).toHaveLength(1)
})

test('who pastes more than a session takes loses the rest of it, and nobody loses the session', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  const ben = await sits(y, runId, 'Ben')
  await soon(y)
  for (let n = 0; n < 20; n++) await anna.type('x'.repeat(64 * 1024))
  await soon(y)
  await ben.type('b')
  await soon(y)
  expect([anna.closed, ben.closed, machine.sandboxes[0]?.closed]).toEqual([undefined, undefined, 0])
  expect(anna.screen).toContain('\u0007')
  expect(ben.screen).not.toContain('\u0007')
  expect(ben.screen.at(-1)).toBe('b')
})

test('the end of the session is everybody’s, and the next one begins anew', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  await anna.type('exit\r')
  await soon(y)
  expect(anna.seen.at(-1)).toEqual({ type: 'exit', code: 0 })
  const again = await sits(y, runId, 'Anna')
  await soon(y)
  expect(shownTo(again)).toBe('$ ')
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1, 0])
})

test('who loads a page anew while the session ends sees how it ended', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  await anna.leave()
  await soon(y)
  machine.sandboxes[0]?.ear?.onOutput('bye')
  machine.sandboxes[0]?.ear?.onExit(3)
  await soon(y)
  const again = await sits(y, runId, 'Anna')
  await soon(y)
  expect([shownTo(again), again.seen.at(-1)]).toEqual(['$ bye', { type: 'exit', code: 3 }])
  await sits(y, runId, 'Anna')
  await soon(y)
  expect(machine.boots).toHaveLength(2)
})

test('released and resumed in one breath, it is booted anew', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  void y.desk.releaseRun(runId)
  const asked = y.desk.resumeRun(runId)
  await soon(y)
  expect((await asked).ok).toBe(true)
  expect(anna.closed?.code).toBe(1008)
  expect(machine.sandboxes.map(({ closed }) => closed)).toEqual([1, 0])
})

test('a host that starts again within the worker’s grace finds the session as it was', async () => {
  const { y, machine, runId } = await aRetainedRun()
  const anna = await sits(y, runId, 'Anna')
  await soon(y)
  await anna.type('a')
  await soon(y)
  await y.restart()
  machine.drop()
  await y.clock.advance(30_000)
  const again = await sits(y, runId, 'Anna')
  await soon(y)
  expect(shownTo(again)).toBe('$ a')
  expect(machine.boots).toHaveLength(1)
})

describe('what is typed into a line that is dead already', () => {
  /** Until both ends have found out that nothing comes any more, and the worker has dialled again. */
  const MENDED_MS = 90_000

  test('reaches the session once, in order, when the line is back', async () => {
    const { y, machine, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await soon(y)
    await anna.type('before,')
    await soon(y)
    machine.deaden('both')
    await anna.type('into the dead line,')
    await soon(y)
    await anna.type('and more,')
    await y.clock.advance(MENDED_MS)
    await anna.type('after')
    await soon(y)
    expect(machine.sandboxes[0]?.typed).toBe('before,into the dead line,and more,after')
    expect(shownTo(anna)).toBe('$ before,into the dead line,and more,after')
  })

  test('and has been taken in, though nobody heard of it, is not said again', async () => {
    const { y, machine, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await soon(y)
    machine.deaden('to the host')
    await anna.type('taken in')
    await soon(y)
    expect(machine.sandboxes[0]?.typed).toBe('taken in')
    await y.clock.advance(MENDED_MS)
    await anna.type(' once')
    await soon(y)
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
    const { y, machine, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await soon(y)
    await anna.type('before,')
    await soon(y)
    machine.deaden('both')
    await anna.type('into the dead line,')
    machine.diesAfter = type
    await y.clock.advance(MENDED_MS)
    await anna.type('and the next,')
    await y.clock.advance(MENDED_MS)
    await anna.type('after')
    await soon(y)
    expect(machine.diesAfter).toBeUndefined()
    expect(machine.sandboxes[0]?.typed).toBe('before,into the dead line,and the next,after')
  })

  test('is lost where the worker does not count, and nothing comes twice or has to wait for long', async () => {
    const { y, machine, runId } = await aRetainedRun()
    machine.counts = false
    const anna = await sits(y, runId, 'Anna')
    await soon(y)
    await anna.type('before,')
    await soon(y)
    machine.deaden('both')
    await anna.type('lost,')
    await y.clock.advance(MENDED_MS)
    await anna.type('after')
    await y.clock.advance(5_000)
    expect(machine.sandboxes[0]?.typed).toBe('before,after')
    // It is not asked a second time.
    machine.deaden('both')
    await y.clock.advance(MENDED_MS)
    await anna.type(' all')
    await soon(y)
    expect(machine.sandboxes[0]?.typed).toBe('before,after all')
  })

  test('beyond what is kept of it loses its beginning, and nothing else', async () => {
    const { y, machine, runId } = await aRetainedRun()
    const anna = await sits(y, runId, 'Anna')
    await soon(y)
    machine.deaden('both')
    const pieces = Array.from(
      { length: 20 },
      (_, at) => `${String(at).padStart(2, '0')}${'x'.repeat(ATTACH_HANDED_OVER_CHARS_MAX / 16)}`,
    )
    for (const piece of pieces) await anna.type(piece)
    await y.clock.advance(MENDED_MS)
    await anna.type('end')
    await soon(y)
    const kept = machine.sandboxes[0]?.typed ?? ''
    expect(kept.length).toBeGreaterThan(ATTACH_HANDED_OVER_CHARS_MAX / 2)
    expect(`${pieces.join('')}end`.endsWith(kept)).toBe(true)
  })

  const stories = Number(process.env.TYPED_RUNS ?? 20)

  test.each([true, false])('whatever becomes of the line (the worker counts: %s)', async (counts) => {
    const seed = drawnSeed()
    for (let story = 0; story < stories; story++) {
      const told = await aStory(new Random(seed + story), counts)
      const at = { seed: seed + story }
      for (const { typed, arrived } of told) {
        if (counts) expect({ ...at, arrived }).toEqual({ ...at, arrived: typed })
        // In order and at most once each; what is lost is of an earlier release.
        else
          expect({ ...at, arrived }).toEqual({
            ...at,
            arrived: typed.filter((word) => new Set<string>(arrived).has(word)),
          })
      }
    }
  })

  async function aStory(random: Random, counts: boolean) {
    const { y, machine, runId } = await aRetainedRun()
    machine.counts = counts
    const people = { a: await sits(y, runId, 'Anna'), b: await sits(y, runId, 'Ben') }
    await soon(y)
    const typed: Record<'a' | 'b', string[]> = { a: [], b: [] }
    for (let step = 0; step < 25; step++) {
      const deed = random.below(10)
      if (deed < 6) {
        const who = random.pick(['a', 'b'] as const)
        const word = `${who}${typed[who].length},`
        typed[who].push(word)
        await people[who].type(word)
      } else if (deed === 6) machine.deaden(random.pick(['both', 'to the worker', 'to the host'] as const))
      else if (deed === 7) machine.drop()
      else await y.clock.advance(random.pick([0, 1, 2, 3, 500, 20_000, 50_000]))
      // No longer than a session waits for its line.
      if (step % 5 === 4) await y.clock.advance(random.random(0.5) ? MENDED_MS : 1)
    }
    await y.clock.advance(2 * MENDED_MS)
    expect([people.a.closed, people.b.closed, machine.boots.length]).toEqual([undefined, undefined, 1])
    const arrived = machine.sandboxes[0]?.typed ?? ''
    return (['a', 'b'] as const).map((who) => ({
      typed: typed[who],
      arrived: arrived.match(new RegExp(`${who}\\d+,`, 'g')) ?? [],
    }))
  }
})
