/**
 * A worker's machine with the product's own daemon on it: one process after another, on one disk.
 *
 * What survives a process is the spool and the credential. Whoever looks after the machine starts the daemon again when
 * it has ended, and types in a new pairing token where none of the old is left.
 */
import { createDaemon } from '../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonDependencies, DaemonEnd } from '../../actors/daemon/daemon-dependencies.ts'
import type {
  ConnectionListener,
  DialledConnection,
  WorkerCredential,
  WorkerIdentity,
} from '../../core/daemon/ports.ts'
import type { Log, Meters } from '../../core/ports.ts'
import type { RunLease, WorkerFrame } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION } from '../../protocol/limits.ts'
import { plainScreen } from '../support/plain-screen.ts'
import { type Batch, Disk } from './disk.ts'
import { Hands } from './executor.ts'
import { bytesOf, FAULTY, HURT } from './host.ts'
import { fieldsOf } from './laws/law.ts'
import type { Wire, WorkerEar } from './network.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import { type Boot, Shelf } from './sandboxes.ts'
import { type Drive, newDrive, SimStore } from './store.ts'
import { type Process, ProcessClock } from './timeline.ts'
import {
  type DaemonExecution,
  type DaemonWatch,
  type Foreign,
  meddling,
  type SimWorker,
  type WorkerParts,
} from './worker.ts'

export interface DaemonWorkerParts extends WorkerParts<DaemonWatch> {
  /** The true time at which a lease runs out for its worker, as the wires say. */
  readonly stopAt: (leaseId: string) => number
  /** Which of the agent's sessions a run has, as far as the host knows. */
  readonly sessionOf: (runId: string) => string | undefined
}

/** After an end that nobody asked for. */
const RESTART_MS = 20_000
/** A token that has not come by then will not come. */
const TOKEN_MS_MAX = 60_000
/** How long whoever has copied the credential stays on the line. */
const ROGUE_MS_MAX = 20_000
const VERSION = '0.1.0'
const CAPABILITIES = { os: 'linux', arch: 'x64', provider: 'bwrap' } as const
const ABANDONED = 'l'

interface Life {
  readonly process: Process
  readonly clock: ProcessClock
  readonly store: SimStore
  readonly daemon: Daemon
  readonly executions: Set<DaemonExecution>
  readonly boots: Set<Boot>
  wire: Wire | undefined
}

export class DaemonWorker implements SimWorker {
  readonly plan: WorkerPlan
  readonly #parts: DaemonWorkerParts
  readonly #disk = new Disk(undefined)
  readonly #drive: Drive = newDrive()
  readonly #shelf = new Shelf()
  #credential: WorkerCredential | undefined
  #token: string | undefined
  #life: Life | undefined
  #batches = 0
  #armed: { readonly at: number; readonly point: CommitPoint; readonly then: () => void } | undefined
  /** Revoked and gone home: only a person brings it back. */
  #retired = false
  #content = false
  #asking: object | undefined
  #downMs = RESTART_MS

  constructor(parts: DaemonWorkerParts) {
    this.plan = parts.plan
    this.#parts = parts
  }

  // ---- what others may know and do ---------------------------------------------------------------------------------

  get process(): Process | undefined {
    return this.#life?.process
  }

  get isOn(): boolean {
    return this.#life !== undefined
  }

  get workerId(): string | undefined {
    return this.#credential?.workerId
  }

  get secret(): string | undefined {
    return this.#credential?.secret
  }

  get wire(): Wire | undefined {
    return this.#life?.wire
  }

  get isRegistered(): boolean {
    return this.#life?.daemon.status().online === true
  }

  get overdue(): readonly string[] {
    const life = this.#life
    if (life === undefined) return []
    const busy = new Set([...life.executions, ...life.boots].map(({ runId }) => runId))
    const over = [...this.#shelf.kept.values()].filter(
      ({ runId, until }) => until !== undefined && until <= life.clock.now() && !busy.has(runId),
    )
    return over.map(({ runId }) => runId)
  }

  usedIn(runId: string): number {
    return this.#shelf.used.get(runId) ?? 0
  }

  takeToken(token: string): void {
    if (this.#credential === undefined) this.#token = token
  }

  switchOn(): void {
    if (this.#life !== undefined || this.#retired) return
    if (this.#credential === undefined && this.#token === undefined) this.#ask()
    else this.#boot()
  }

  crash(quiet: boolean): void {
    const life = this.#life
    if (life === undefined) return
    if (quiet) life.wire?.break(0.5, 1, undefined, undefined)
    else life.wire?.workerCloses()
    this.#over(life)
    life.store.crash()
    this.#parts.watch.crashed(this)
  }

  crashAtCommit(count: number, point: CommitPoint, then: () => void): boolean {
    if (this.#life === undefined) return false
    this.#armed = { at: this.#batches + count, point, then }
    return true
  }

  stop(patienceMs: number, downMs: number): boolean {
    const life = this.#life
    if (life === undefined) return false
    this.#downMs = downMs
    const { time, watch } = this.#parts
    watch.said(this, 'is asked to end')
    time.in(0, () => life.daemon.drain(), life.process)
    time.in(patienceMs, () => life.daemon.stopNow(), life.process)
    return true
  }

  spoil(how: 'full' | 'slow' | 'broken', ms: number): boolean {
    const { full, broken } = this.#drive
    if (this.#life === undefined || full || broken) return false
    if (how === 'slow') this.#drive.flushMsMax = 100 + ms / 20
    else this.#drive[how] = true
    this.#life.store.look()
    this.#parts.time.in(ms, () => this.#mend())
    return true
  }

  /** Somebody has copied its credential: what is said to him, it does not hear. */
  connectAgain(): void {
    const life = this.#life
    const credential = this.#credential
    if (life === undefined || credential === undefined) return
    const { dial, time, random } = this.#parts
    const opened = () =>
      wire.sendUp({
        type: 'register',
        protocolVersion: PROTOCOL_VERSION,
        auth: { kind: 'credential', ...credential },
        name: this.plan.id,
        capabilities: { ...CAPABILITIES, maxConcurrency: this.plan.concurrency, version: VERSION },
        activeLeases: this.#claims(life),
      })
    const wire = dial(life.process, { opened, heard: () => {}, closed: () => {} }, true)
    wire.dial()
    time.in(random.fraction() * ROGUE_MS_MAX, () => wire.workerCloses())
  }

  meddle(foreign: readonly Foreign[]): void {
    const life = this.#life
    if (life?.wire === undefined) return
    const at = new Date(life.clock.now()).toISOString()
    for (const frame of meddling(foreign, this.#claims(life), at, life.clock.monotonic()))
      life.wire.sendUp(frame)
  }

  settleDown(): void {
    this.#content = true
    this.#armed = undefined
    this.#mend()
    // The host took offence at what it never said; whoever finds it waiting starts it anew.
    if (this.#life?.daemon.status().trouble?.includes('(malformed)') === true) this.crash(false)
  }

  jump(ms: number): void {
    this.#parts.machine.wallOffset += ms
  }

  comeBack(): void {
    this.#retired = false
    this.switchOn()
  }

  // ---- one process after another -----------------------------------------------------------------------------------

  #boot(): void {
    const { time, plan, machine, watch } = this.#parts
    const process: Process = {
      name: `${plan.id} at ${Math.floor(time.now)}`,
      dead: false,
      pausedUntil: 0,
      ends: [],
    }
    const clock = new ProcessClock(time, process, machine)
    const store = this.#store(process)
    const life: Life = {
      process,
      clock,
      store,
      executions: new Set(),
      boots: new Set(),
      wire: undefined,
      daemon: createDaemon(this.#daemonParts(process, clock, store, () => life)),
    }
    this.#life = life
    this.#downMs = RESTART_MS
    watch.booted(this, this.#disk)
    time.in(
      0,
      () => {
        const started = life.daemon.start()
        if (!started.ok) watch.complained(this, started.refusal.message, {})
      },
      process,
    )
  }

  #daemonParts(process: Process, clock: ProcessClock, store: SimStore, life: () => Life): DaemonDependencies {
    const { codehost, random, plan, sessionOf, stopAt, time } = this.#parts
    const hands = new Hands({
      plan,
      clock,
      process,
      random,
      codehost,
      sessionOf,
      shelf: this.#shelf,
      now: () => time.now,
      isExecuted: (runId) => [...life().executions].some((one) => one.runId === runId),
      stopAt,
      watch: this.#handsWatch(life),
      isContent: () => this.#content,
    })
    return {
      clock,
      random: { bytes: (count) => bytesOf(random, count), fraction: () => random.fraction() },
      log: this.#log(process),
      meters: this.#meters(process),
      database: store.database,
      dialer: { dial: (ear) => this.#dial(life(), ear) },
      identity: this.#identity(process),
      executor: hands,
      makeScreen: plainScreen,
      capabilities: CAPABILITIES,
      name: plan.id,
      concurrency: plan.concurrency,
      version: VERSION,
      ...(plan.drainMsMax === undefined ? {} : { drainMsMax: plan.drainMsMax }),
      onEnd: (end) => this.#ended(life(), end),
    }
  }

  #ended(life: Life, end: DaemonEnd): void {
    const { watch, time } = this.#parts
    watch.ended(this, end)
    time.in(
      1,
      () => {
        void life.store.close()
        life.wire?.workerCloses()
        this.#over(life)
        if (end.is === 'revoked') this.#retired = true
        else time.in(this.#downMs, () => this.switchOn())
      },
      life.process,
    )
  }

  /** Its processes go with it. */
  #over(life: Life): void {
    life.process.dead = true
    for (const execution of life.executions) this.#parts.watch.stopped(execution)
    for (const boot of life.boots) this.#parts.watch.gone(boot)
    this.#parts.watch.lineDown(this)
    life.executions.clear()
    life.boots.clear()
    this.#life = undefined
    this.#armed = undefined
  }

  #ask(): void {
    const { askForToken, time } = this.#parts
    if (this.#asking !== undefined) return
    const asking = {}
    this.#asking = asking
    const isMine = () => this.#asking === asking
    askForToken((token) => {
      if (!isMine()) return
      this.#asking = undefined
      this.#token = token
      this.switchOn()
    })
    time.in(TOKEN_MS_MAX, () => {
      if (!isMine()) return
      this.#asking = undefined
      this.switchOn()
    })
  }

  #mend(): void {
    Object.assign(this.#drive, newDrive())
    this.#life?.store.look()
  }

  // ---- what it is given --------------------------------------------------------------------------------------------

  #store(process: Process): SimStore {
    const { time, random, watch } = this.#parts
    return new SimStore({
      time,
      process,
      disk: this.#disk,
      drive: this.#drive,
      random,
      nextNumber: () => {
        this.#batches += 1
        return this.#batches
      },
      watch: {
        asked: (batch) => this.#reached(batch, 'before flush'),
        landing: (batch) => watch.spooling(this, batch),
        landed: (batch) => {
          watch.spooled(this, batch)
          this.#reached(batch, 'after flush')
        },
      },
    })
  }

  #reached({ number }: Batch, point: CommitPoint): void {
    if (this.#armed === undefined || this.#armed.point !== point || number < this.#armed.at) return
    const { then } = this.#armed
    this.#armed = undefined
    then()
  }

  #dial(life: Life, ear: ConnectionListener): DialledConnection {
    const { dial, watch, time } = this.#parts
    const heard: WorkerEar = {
      opened: () => ear.onOpen(),
      heard: (_frame, text) => ear.onText(text),
      closed: () => {
        watch.lineDown(this)
        ear.onClose('the line is gone')
      },
    }
    const wire = dial(life.process, heard, false)
    life.wire = wire
    wire.dial()
    return {
      send: (text) => {
        if (life.process.dead) return
        // What it sends is what the laws say it is: they check it against the protocol.
        const frame = JSON.parse(text) as WorkerFrame
        watch.sends(this, wire, frame, text)
        wire.sendUp(frame, text)
      },
      backlogBytes: () => 0,
      close: () => {
        wire.workerCloses()
        watch.lineDown(this)
        time.in(0, () => ear.onClose('it was closed'), life.process)
      },
    }
  }

  #identity(process: Process): WorkerIdentity {
    const soon = (change: () => void) =>
      new Promise<void>((resolve) => {
        const done = () => {
          change()
          resolve()
        }
        this.#parts.time.in(this.#parts.random.fraction() * 10, done, process)
      })
    return {
      credential: () => this.#credential,
      pairingToken: () => this.#token,
      saveCredential: (credential) =>
        soon(() => {
          this.#credential = credential
          this.#token = undefined
        }),
      deletePairingToken: () =>
        soon(() => {
          this.#token = undefined
        }),
      deleteCredential: () =>
        soon(() => {
          if (this.#credential !== undefined)
            this.#parts.watch.deletedCredential(this, this.#credential.workerId)
          this.#credential = undefined
        }),
    }
  }

  #handsWatch(life: () => Life): ConstructorParameters<typeof Hands>[0]['watch'] {
    const { watch } = this.#parts
    return {
      started: (execution) => {
        life().executions.add(execution)
        watch.started(execution)
      },
      stopped: (execution) => {
        if (life().executions.delete(execution)) watch.stopped(execution)
      },
      told: (execution, told) => watch.told(execution, told),
      ordered: (execution, order) => watch.ordered(execution, order),
      published: (execution) => watch.published(execution),
      followedUp: (execution, followUpId) => watch.followedUp(execution, followUpId),
      boots: (boot) => {
        life().boots.add(boot)
        watch.boots(boot)
      },
      moved: (boot) => watch.moved(boot),
      gone: (boot) => {
        if (life().boots.delete(boot)) watch.gone(boot)
      },
      reclaims: (isClaimed) => watch.reclaims(this, isClaimed),
      tookBack: (runId) => watch.tookBack(this, runId),
      discarded: (runId) => watch.discarded(this, runId),
    }
  }

  /** What its disk says that it has. */
  #claims({ clock }: Life): RunLease[] {
    const expiresAt = new Date(clock.now()).toISOString()
    return [...(this.#disk.lives.get('execution') ?? [])].flatMap(([id, { value }]) => {
      const { runId } = fieldsOf(value)
      return value.s === ABANDONED ? [] : [{ id, runId: String(runId), expiresAt, lastSeq: 0 }]
    })
  }

  #log(process: Process): Log {
    const say = (level: string) => (fields: object, message: string) => {
      if (process.dead) return
      this.#parts.watch.said(this, `says (${level}) ${message} ${JSON.stringify(fields)}`)
      if (level === 'error' && FAULTY.has(message)) this.#parts.watch.complained(this, message, fields)
    }
    return { debug: () => {}, info: say('info'), warn: say('warn'), error: say('error') }
  }

  #meters(process: Process): Meters {
    return {
      count: (name, labels) => {
        if (HURT.has(name) && !process.dead) this.#parts.watch.complained(this, name, labels ?? {})
      },
      gauge: () => {},
      observe: () => {},
    }
  }
}
