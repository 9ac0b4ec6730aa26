/**
 * Real daemons and a real host on one clock, with random faults: lost and silent connections, killed processes, cancels.
 *
 * In every case each run ends, at most one worker executes a run at a time, reports arrive once and in order, and no
 * worker's disk keeps anything.
 */

import { expect, test } from '@jest/globals'
import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonEnd } from '../../../actors/daemon/daemon-context.ts'
import type {
  ConnectionListener,
  DialledConnection,
  Execution,
  ExecutionReporter,
  ExecutionRequest,
  Executor,
  Progress,
  WorkerCredential,
  WorkerIdentity,
} from '../../../core/daemon/ports.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { WorkerReceiver } from '../../../core/ports/connections.ts'
import { no, yes } from '../../../core/result.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import {
  config,
  type HostConversation,
  pairingToken,
  startHost,
  ticket,
} from '../../conversations/host-conversation.ts'
import { createHostClock } from '../../support/confirmed-clock.ts'
import { ADDED_KEY, addUnknownKeys, UNKNOWN_FRAME } from '../../support/later-version.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'
import { createPlainScreen } from '../../support/plain-screen.ts'
import { Random, seedFromEnvironment } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'

const AT = '2026-03-01T08:00:00.000Z'

class RestartableClock implements Clock {
  isAlive = true
  readonly #clock: ManualClock
  readonly #startedAt: number

  constructor(clock: ManualClock) {
    this.#clock = clock
    this.#startedAt = clock.monotonic()
  }
  now = () => this.#clock.now()
  /** The monotonic time of a process starts with the process. */
  monotonic = () => this.#clock.monotonic() - this.#startedAt
  after = (ms: number, run: () => void) => this.#clock.after(ms, () => this.isAlive && run())
  endOfTick = (run: () => void) => this.#clock.endOfTick(() => this.isAlive && run())
}

/** Observes which runs are executed on all machines. */
class ExecutionObserver {
  readonly running = new Map<string, string>()
  readonly violations: string[] = []
  readonly printedLines = new Map<string, string[]>()

  onBegin({ leaseId, job }: ExecutionRequest): void {
    const runningLease = this.running.get(job.run.id)
    if (runningLease !== undefined)
      this.violations.push(`${job.run.id} is executed under ${runningLease} and ${leaseId}`)
    this.running.set(job.run.id, leaseId)
  }
  onEnd({ leaseId, job }: ExecutionRequest): void {
    if (this.running.get(job.run.id) === leaseId) this.running.delete(job.run.id)
  }
}

class RandomExecution implements Execution {
  readonly #order: ExecutionRequest
  readonly #reporter: ExecutionReporter
  readonly #clock: Clock
  readonly #random: Random
  readonly #observer: ExecutionObserver
  #stopped = false
  #wake: () => void = () => {}
  readonly #over: Promise<void>
  #end: () => void = () => {}

  constructor(
    order: ExecutionRequest,
    reporter: ExecutionReporter,
    clock: Clock,
    random: Random,
    observer: ExecutionObserver,
  ) {
    this.#order = order
    this.#reporter = reporter
    this.#clock = clock
    this.#random = random
    this.#observer = observer
    this.#over = new Promise((resolve) => {
      this.#end = resolve
    })
    observer.onBegin(order)
  }

  #pause(msMax: number): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return new Promise((resolve) => {
      this.#wake = resolve
      this.#clock.after(this.#random.below(msMax), resolve)
    })
  }
  async prepare() {
    await this.#pause(20_000)
    return this.#stopped
      ? no('failed', 'stopped')
      : yes<Progress>({ sandbox: { id: `sb-${this.#order.leaseId}` } })
  }
  async runAgent() {
    const printed: string[] = []
    this.#observer.printedLines.set(this.#order.leaseId, printed)
    for (let n = this.#random.below(30); n > 0 && !this.#stopped; n--) {
      await this.#reporter.waitForCapacity()
      const text = `${this.#order.leaseId} ${printed.length}`
      printed.push(text)
      this.#reporter.report({ is: 'event', event: { type: 'log', at: AT, stream: 'stdout', text } })
      await this.#pause(this.#random.chance(0.1) ? 60_000 : 2_000)
    }
    return this.#stopped ? ({ verdict: 'stopped' } as const) : ({ verdict: 'done' } as const)
  }
  async finish(): Promise<RunOutcome> {
    await this.#pause(5_000)
    this.#goSoon()
    const summary = this.#order.leaseId
    return { status: 'completed', result: { summary, artifacts: [] }, costs: [] }
  }
  stop() {
    this.#stopped = true
    this.#goSoon()
    this.#wake()
  }
  /** Processes exit after a moment, also after a kill. */
  #goSoon(): void {
    this.#clock.after(this.#random.below(3_000), () => {
      this.#observer.onEnd(this.#order)
      this.#end()
    })
  }
  whenExited() {
    return this.#over
  }
}

interface SimulatedConnection {
  readonly listener: ConnectionListener
  receiver: WorkerReceiver | undefined
  isOpen: boolean
  isSilent: boolean
  losesFrames: boolean
}

/** A machine with a disk, on which one daemon after another runs. */
class SimulatedMachine {
  readonly disk: MemoryControlDatabase
  readonly ends: DaemonEnd[] = []
  readonly log = createRecordingLog()
  daemon: Daemon | undefined
  #credential: WorkerCredential | undefined
  #token: string | undefined
  #clock: RestartableClock | undefined
  #connection: SimulatedConnection | undefined
  readonly #requests: ExecutionRequest[] = []
  readonly #host: HostConversation
  readonly #random: Random
  readonly #observer: ExecutionObserver
  #interruptedUntil = 0

  /** Whether both ends send what a later version would add: keys in every object, and unknown frame types. */
  readonly #addsKeys: boolean

  constructor(
    host: HostConversation,
    random: Random,
    observer: ExecutionObserver,
    pairingToken: string,
    addsKeys = false,
  ) {
    this.#addsKeys = addsKeys
    this.#host = host
    this.#random = random
    this.#observer = observer
    this.#token = pairingToken
    this.disk = new MemoryControlDatabase(host.clock)
  }

  start(): void {
    const daemonClock = new RestartableClock(this.#host.clock)
    this.#clock = daemonClock
    const executor: Executor = {
      refusalOf: async () => undefined,
      start: (order, reporter) => {
        this.#requests.push(order)
        return new RandomExecution(order, reporter, daemonClock, this.#random, this.#observer)
      },
      recover: async () => ({}),
      boot: async () => no('failed', 'nobody boots anything here'),
      discard: async () => {},
      reclaim: async () => [],
    }
    const identity: WorkerIdentity = {
      credential: () => this.#credential,
      pairingToken: () => this.#token,
      saveCredential: async (credential) => {
        this.#credential = credential
        this.#token = undefined
      },
      deletePairingToken: async () => {
        this.#token = undefined
      },
      deleteCredential: async () => {
        this.#credential = undefined
      },
    }
    this.daemon = createDaemon({
      makeScreen: createPlainScreen,
      clock: daemonClock,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => this.#random.fraction() },
      log: this.log,
      meters: noMeters,
      database: this.disk,
      dialer: { dial: (listener) => this.#dial(listener, daemonClock) },
      identity,
      executor,
      hostClock: createHostClock(daemonClock),
      capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
      name: 'anvil',
      concurrency: 2,
      version: '0.1.0',
      onEnd: (end) => this.ends.push(end),
    })
    this.daemon.start()
  }

  kill(): void {
    if (this.#clock === undefined) return
    this.#clock.isAlive = false
    this.#clock = undefined
    for (const order of this.#requests.splice(0)) this.#observer.onEnd(order)
    this.drop()
  }

  get isOn(): boolean {
    return this.#clock !== undefined
  }

  drop(): void {
    const connection = this.#connection
    this.#connection = undefined
    if (connection === undefined || !connection.isOpen) return
    connection.isOpen = false
    connection.receiver?.onClosed()
    connection.listener.onClose('the connection broke')
  }

  /** Frames are dropped in both directions, and the connection stays open. */
  silence(): void {
    if (this.#connection !== undefined) this.#connection.isSilent = true
  }

  /** No connection succeeds for a while, and the current one is silent. */
  interruptNetwork(ms: number): void {
    this.#interruptedUntil = this.#host.clock.monotonic() + ms
    this.silence()
  }

  /** Some numbered frames of the worker never arrive. */
  loseFrames(): void {
    if (this.#connection !== undefined) this.#connection.losesFrames = true
  }

  #dial(listener: ConnectionListener, daemonClock: RestartableClock): DialledConnection {
    const { clock } = this.#host
    const connection: SimulatedConnection = {
      listener,
      receiver: undefined,
      isOpen: true,
      isSilent: false,
      losesFrames: false,
    }
    this.#connection = connection
    const close = () => {
      if (!connection.isOpen) return
      connection.isOpen = false
      connection.receiver?.onClosed()
    }
    const deliver = (run: () => void) =>
      clock.after(5, () => connection.isOpen && !connection.isSilent && run())
    clock.after(5, () => {
      const connected =
        clock.monotonic() >= this.#interruptedUntil && this.#connect(connection, deliver, close)
      if (!daemonClock.isAlive || !connection.isOpen) return
      if (connected) listener.onOpen()
      else {
        connection.isOpen = false
        listener.onClose('the host is down')
      }
    })
    const send = (text: string) => {
      if (connection.losesFrames && text.includes('"seq":') && this.#random.chance(0.3)) return
      deliver(() => {
        connection.receiver?.onText(this.#asLater(text))
        if (this.#addsKeys && !text.startsWith('{"type":"register"'))
          connection.receiver?.onText(UNKNOWN_FRAME)
      })
    }
    return { send, backlogBytes: () => 0, close }
  }

  #asLater(text: string): string {
    return this.#addsKeys ? addUnknownKeys(text) : text
  }

  #connect(connection: SimulatedConnection, deliver: (run: () => void) => void, close: () => void): boolean {
    try {
      const connected = this.#host.hostApi.connectWorker({
        address: 'here',
        send: (text) => {
          deliver(() => {
            connection.listener.onText(this.#asLater(text))
            if (this.#addsKeys) connection.listener.onText(UNKNOWN_FRAME)
          })
          return true
        },
        close: () => {
          this.#host.clock.after(5, () => {
            if (!connection.isOpen) return
            close()
            connection.listener.onClose('the host closed the connection')
          })
        },
      })
      if (connected.ok) connection.receiver = connected.value
      return connected.ok
    } catch {
      return false
    }
  }
}

const FAULTS = ['drop', 'drop', 'leak', 'mute', 'cut off', 'kill', 'host', 'cancel'] as const

async function runScenario(seed: number, addsKeys = false): Promise<void> {
  const random = new Random(seed)
  const world = await startHost(config)
  const observer = new ExecutionObserver()
  const machines = [0, 1].map(
    () => new SimulatedMachine(world, random, observer, pairingToken(world), addsKeys),
  )
  for (const machine of machines) machine.start()
  await world.clock.advance(2_000)
  world.tracker.put(...[1, 2, 3, 4, 5].map((n) => ticket(`ENG-${n}`)))
  for (let faults = random.below(12); faults > 0; faults--) {
    await world.clock.advance(random.below(40_000))
    const machine = random.pick(machines)
    const fault = random.pick(FAULTS)
    if (fault === 'drop') machine.drop()
    else if (fault === 'leak') machine.loseFrames()
    else if (fault === 'mute') machine.silence()
    else if (fault === 'cut off') machine.interruptNetwork(random.below(400_000))
    else if (fault === 'kill') {
      machine.kill()
      world.clock.after(random.below(300_000), () => machine.isOn || machine.start())
    } else if (fault === 'host') {
      await world.crash()
      for (const each of machines) each.drop()
    } else {
      const [run] = world.allRuns().filter(({ status }) => status !== 'queued')
      if (run !== undefined) void world.hostApi.cancelRun(run.id)
    }
  }
  await world.clock.advance(3_600_000)
  expect(observer.violations).toEqual([])
  expect(world.transcript.filter((line) => line.startsWith('!!'))).toEqual([])
  for (const machine of machines) {
    expect(machine.ends).toEqual([])
    expect(machine.daemon?.status()).toMatchObject({ state: 'serving', online: true, executions: [] })
    expect(machine.log.lines.filter(({ level }) => level === 'error')).toEqual([])
    expect([...machine.disk.keyValues.all('frame'), ...machine.disk.keyValues.all('outbox')]).toEqual([])
    expect([...machine.disk.snapshots.all('execution')]).toEqual([])
  }
  const runs = world.allRuns()
  const stored = [
    ...world.store.database.snapshots.all('worker'),
    ...world.store.database.snapshots.all('run'),
  ]
  for (const kept of [runs, world.hostApi.fleet(), stored])
    expect(JSON.stringify(kept)).not.toContain(ADDED_KEY)
  expect(runs.filter(({ status }) => !['completed', 'failed', 'cancelled'].includes(status))).toEqual([])
  for (const run of runs.filter(({ status }) => status === 'completed')) {
    const printed = (await world.events(run.id))
      .filter((line) => line.startsWith('stdout '))
      .map((line) => line.slice(7))
    expect(new Set(printed).size).toBe(printed.length)
    const leaseId = run.result?.summary ?? ''
    expect(printed.filter((line) => line.startsWith(leaseId))).toEqual(observer.printedLines.get(leaseId))
  }
}

test('with random faults every run ends, no report arrives twice, and no disk keeps anything', async () => {
  const first = seedFromEnvironment(1)
  const count = Number(process.env.SEEDS ?? 20)
  for (let seed = first; seed < first + count; seed++) {
    try {
      await runScenario(seed)
    } catch (error) {
      throw new Error(`SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}, 300_000)

test('a host and a worker that both add keys and frame types understand each other', async () => {
  for (let seed = 1; seed <= 5; seed++) await runScenario(seed, true)
}, 120_000)
