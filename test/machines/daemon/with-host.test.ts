/**
 * Real daemons and a real host on one clock: lines break, fall silent and come back, daemons and the host are killed at
 * any moment, people cancel. However it goes, every run comes to an end, at most one worker executes it at a time,
 * what is told arrives once and in order, and no worker's disk keeps anything.
 */
import { expect, test } from '@jest/globals'
import type { WorkerReceiver } from '../../../core/connection-ports.ts'
import { createDaemon } from '../../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
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
import type { Clock } from '../../../core/ports.ts'
import { no, yes } from '../../../core/result.ts'
import type { RunOutcome } from '../../../protocol/frames.ts'
import { MemoryControlDatabase } from '../../../store/memory/control-database.ts'
import {
  config,
  type HostConversation,
  pairingToken,
  startHost,
  ticket,
} from '../../conversations/host-conversation.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { plainScreen } from '../../support/plain-screen.ts'
import { firstSeed, Random } from '../../support/random.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'

const AT = '2026-03-01T08:00:00.000Z'

class Leash implements Clock {
  alive = true
  readonly #clock: ManualClock
  readonly #bornAt: number

  constructor(clock: ManualClock) {
    this.#clock = clock
    this.#bornAt = clock.monotonic()
  }
  now = () => this.#clock.now()
  /** Each process counts from its own beginning. */
  monotonic = () => this.#clock.monotonic() - this.#bornAt
  after = (ms: number, run: () => void) => this.#clock.after(ms, () => this.alive && run())
  endOfTick = (run: () => void) => this.#clock.endOfTick(() => this.alive && run())
}

/** Which runs are executed, over all machines. */
class Crowd {
  readonly now = new Map<string, string>()
  readonly complaints: string[] = []
  readonly done = new Map<string, string[]>()

  begins({ leaseId, job }: ExecutionRequest): void {
    const other = this.now.get(job.run.id)
    if (other !== undefined) this.complaints.push(`${job.run.id} is executed under ${other} and ${leaseId}`)
    this.now.set(job.run.id, leaseId)
  }
  ends({ leaseId, job }: ExecutionRequest): void {
    if (this.now.get(job.run.id) === leaseId) this.now.delete(job.run.id)
  }
}

class ScriptedExecution implements Execution {
  readonly #order: ExecutionRequest
  readonly #reporter: ExecutionReporter
  readonly #clock: Clock
  readonly #random: Random
  readonly #crowd: Crowd
  #stopped = false
  #wake: () => void = () => {}
  readonly #over: Promise<void>
  #end: () => void = () => {}

  constructor(
    order: ExecutionRequest,
    reporter: ExecutionReporter,
    clock: Clock,
    random: Random,
    crowd: Crowd,
  ) {
    this.#order = order
    this.#reporter = reporter
    this.#clock = clock
    this.#random = random
    this.#crowd = crowd
    this.#over = new Promise((resolve) => {
      this.#end = resolve
    })
    crowd.begins(order)
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
    const said: string[] = []
    this.#crowd.done.set(this.#order.leaseId, said)
    for (let n = this.#random.below(30); n > 0 && !this.#stopped; n--) {
      await this.#reporter.waitForCapacity()
      const text = `${this.#order.leaseId} ${said.length}`
      said.push(text)
      this.#reporter.report({ is: 'event', event: { type: 'log', at: AT, stream: 'stdout', text } })
      await this.#pause(this.#random.random(0.1) ? 60_000 : 2_000)
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
  /** Processes take a moment to go, also after a kill. */
  #goSoon(): void {
    this.#clock.after(this.#random.below(3_000), () => {
      this.#crowd.ends(this.#order)
      this.#end()
    })
  }
  whenExited() {
    return this.#over
  }
}

interface Wire {
  readonly ear: ConnectionListener
  line: WorkerReceiver | undefined
  open: boolean
  mute: boolean
  leaks: boolean
}

/** A machine with its disk, and one daemon after another on it. */
class Machine {
  readonly disk: MemoryControlDatabase
  readonly ends: DaemonEnd[] = []
  readonly log = keptLog()
  daemon: Daemon | undefined
  #credential: WorkerCredential | undefined
  #token: string | undefined
  #leash: Leash | undefined
  #wire: Wire | undefined
  readonly #orders: ExecutionRequest[] = []
  readonly #host: HostConversation
  readonly #random: Random
  readonly #crowd: Crowd
  #cutOffUntil = 0

  constructor(host: HostConversation, random: Random, crowd: Crowd, pairingToken: string) {
    this.#host = host
    this.#random = random
    this.#crowd = crowd
    this.#token = pairingToken
    this.disk = new MemoryControlDatabase(host.clock)
  }

  start(): void {
    const leash = new Leash(this.#host.clock)
    this.#leash = leash
    const executor: Executor = {
      refusalOf: async () => undefined,
      start: (order, reporter) => {
        this.#orders.push(order)
        return new ScriptedExecution(order, reporter, leash, this.#random, this.#crowd)
      },
      recover: async () => ({}),
      boot: async () => no('unbuilt', 'nobody boots anything here'),
      discard: async () => {},
      reclaim: async () => {},
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
      makeScreen: plainScreen,
      clock: leash,
      random: { bytes: (count) => new Uint8Array(count), fraction: () => this.#random.fraction() },
      log: this.log,
      meters: noMeters,
      database: this.disk,
      dialer: { dial: (ear) => this.#dial(ear, leash) },
      identity,
      executor,
      capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap' },
      name: 'anvil',
      concurrency: 2,
      version: '0.1.0',
      onEnd: (end) => this.ends.push(end),
    })
    this.daemon.start()
  }

  kill(): void {
    if (this.#leash === undefined) return
    this.#leash.alive = false
    this.#leash = undefined
    for (const order of this.#orders.splice(0)) this.#crowd.ends(order)
    this.drop()
  }

  get isOn(): boolean {
    return this.#leash !== undefined
  }

  drop(): void {
    const wire = this.#wire
    this.#wire = undefined
    if (wire === undefined || !wire.open) return
    wire.open = false
    wire.line?.onClosed()
    wire.ear.onClose('the line broke')
  }

  /** Nothing gets through any more, and nobody is told. */
  mute(): void {
    if (this.#wire !== undefined) this.#wire.mute = true
  }

  /** It reaches nobody for a while, and a line that stands says nothing any more. */
  cutOff(ms: number): void {
    this.#cutOffUntil = this.#host.clock.monotonic() + ms
    this.mute()
  }

  /** Some of what it says never arrives. */
  leak(): void {
    if (this.#wire !== undefined) this.#wire.leaks = true
  }

  #dial(ear: ConnectionListener, leash: Leash): DialledConnection {
    const { clock } = this.#host
    const wire: Wire = { ear, line: undefined, open: true, mute: false, leaks: false }
    this.#wire = wire
    const close = () => {
      if (!wire.open) return
      wire.open = false
      wire.line?.onClosed()
    }
    const deliver = (run: () => void) => clock.after(5, () => wire.open && !wire.mute && run())
    clock.after(5, () => {
      const connected = clock.monotonic() >= this.#cutOffUntil && this.#connect(wire, deliver, close)
      if (!leash.alive || !wire.open) return
      if (connected) ear.onOpen()
      else {
        wire.open = false
        ear.onClose('the host is down')
      }
    })
    const send = (text: string) => {
      if (wire.leaks && text.includes('"seq":') && this.#random.random(0.3)) return
      deliver(() => wire.line?.onText(text))
    }
    return { send, backlogBytes: () => 0, close }
  }

  #connect(wire: Wire, deliver: (run: () => void) => void, close: () => void): boolean {
    try {
      const connected = this.#host.hostApi.connectWorker({
        address: 'here',
        send: (text) => {
          deliver(() => wire.ear.onText(text))
          return true
        },
        close: () => {
          this.#host.clock.after(5, () => {
            if (!wire.open) return
            close()
            wire.ear.onClose('the host closed the line')
          })
        },
      })
      if (connected.ok) wire.line = connected.value
      return connected.ok
    } catch {
      return false
    }
  }
}

const FAULTS = ['drop', 'drop', 'leak', 'mute', 'cut off', 'kill', 'host', 'cancel'] as const

async function told(seed: number): Promise<void> {
  const random = new Random(seed)
  const world = await startHost(config)
  const crowd = new Crowd()
  const machines = [0, 1].map(() => new Machine(world, random, crowd, pairingToken(world)))
  for (const machine of machines) machine.start()
  await world.clock.advance(2_000)
  world.tracker.put(...[1, 2, 3, 4, 5].map((n) => ticket(`ENG-${n}`)))
  for (let faults = random.below(12); faults > 0; faults--) {
    await world.clock.advance(random.below(40_000))
    const machine = random.pick(machines)
    const fault = random.pick(FAULTS)
    if (fault === 'drop') machine.drop()
    else if (fault === 'leak') machine.leak()
    else if (fault === 'mute') machine.mute()
    else if (fault === 'cut off') machine.cutOff(random.below(400_000))
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
  expect(crowd.complaints).toEqual([])
  expect(world.transcript.filter((line) => line.startsWith('!!'))).toEqual([])
  for (const machine of machines) {
    expect(machine.ends).toEqual([])
    expect(machine.daemon?.status()).toMatchObject({ state: 'serving', online: true, executions: [] })
    expect(machine.log.lines.filter(({ level }) => level === 'error')).toEqual([])
    expect([...machine.disk.keyValues.all('frame'), ...machine.disk.keyValues.all('outbox')]).toEqual([])
    expect([...machine.disk.snapshots.all('execution')]).toEqual([])
  }
  const runs = world.allRuns()
  expect(runs.filter(({ status }) => !['completed', 'failed', 'cancelled'].includes(status))).toEqual([])
  for (const run of runs.filter(({ status }) => status === 'completed')) {
    const said = (await world.events(run.id))
      .filter((line) => line.startsWith('stdout '))
      .map((line) => line.slice(7))
    expect(new Set(said).size).toBe(said.length)
    const leaseId = run.result?.summary ?? ''
    expect(said.filter((line) => line.startsWith(leaseId))).toEqual(crowd.done.get(leaseId))
  }
}

test('whatever breaks, every run ends, nothing is told twice, and no disk keeps anything', async () => {
  const first = firstSeed(1)
  const count = Number(process.env.SEEDS ?? 20)
  for (let seed = first; seed < first + count; seed++) {
    try {
      await told(seed)
    } catch (error) {
      throw new Error(`SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}, 300_000)
