/**
 * DaemonWorker is a simulated machine that runs the product's daemon: one process after another on one disk.
 *
 * The frames on disk and the credential survive a process. The machine restarts a daemon that ended, and asks a
 * person for a new pairing token when no credential is left.
 */

import { createDaemon } from '../../actors/daemon/create-daemon.ts'
import type { Daemon, DaemonDependencies, DaemonEnd } from '../../actors/daemon/daemon-context.ts'
import { HostClock } from '../../actors/daemon/host-clock.ts'
import { createSleepCountingClock } from '../../bin/process/clock.ts'
import type {
  ConnectionListener,
  DialledConnection,
  WorkerCredential,
  WorkerIdentity,
} from '../../core/daemon/ports.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { RunLease, WorkerFrame } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION } from '../../protocol/limits.ts'
import { createPlainScreen } from '../support/plain-screen.ts'
import type { Random } from '../support/random.ts'
import { damageAfterCrash } from './disk-damage.ts'
import { BUG_METRICS, isBugMessage, randomBytes } from './host-machine.ts'
import { fieldsOf } from './laws/law.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import { isUnpushed, type SandboxBoot, SandboxDisk, type Spending } from './sandbox-boots.ts'
import type { SimConnection, SimConnectionListener } from './sim-connection.ts'
import { type DiskBatch, SimDisk } from './sim-disk.ts'
import { SimExecutor } from './sim-executor.ts'
import { createDrive, type Drive, SimStore } from './sim-store.ts'
import {
  type DaemonExecution,
  type DaemonObserver,
  type ForeignLease,
  foreignLeaseFrames,
  type SimWorker,
  type SimWorkerOptions,
} from './sim-worker.ts'
import { type Process, putToSleep, SimClock } from './timeline.ts'

export interface DaemonWorkerOptions extends SimWorkerOptions<DaemonObserver> {
  /** The true time at which a lease runs out for its worker, computed from the frames that were exchanged. */
  readonly stopAt: (leaseId: string) => number
  /** Decides which rows a crash damages; undefined: none. */
  readonly damage: Random | undefined
  /** The agent's session of a run, as far as the host knows. */
  readonly sessionOf: (runId: string) => string | undefined
}

/** Delay before the daemon is started again after it ended by itself. */
const RESTART_MS = 20_000
/** After this time the worker asks for another pairing token. */
const TOKEN_WAIT_MS_MAX = 60_000
/** How long a process with a copied credential keeps its connection. */
const IMPOSTOR_MS_MAX = 20_000
const VERSION = '0.1.0'
const CAPABILITIES = { os: 'linux', arch: 'x64', provider: 'bwrap' } as const

/** What a hostile link repeats arrives at most this long after the faults end. */
const LAST_FRAME_MS_MAX = 10_000

interface DaemonProcess {
  readonly process: Process
  readonly clock: Clock
  readonly hostClock: HostClock
  readonly store: SimStore
  readonly daemon: Daemon
  readonly executions: Set<DaemonExecution>
  readonly boots: Set<SandboxBoot>
  connection: SimConnection | undefined
  isEnding: boolean
}

export class DaemonWorker implements SimWorker {
  readonly plan: WorkerPlan
  readonly #options: DaemonWorkerOptions
  readonly #disk = new SimDisk(undefined)
  readonly #drive: Drive = createDrive()
  readonly #sandboxes = new SandboxDisk()
  #credential: WorkerCredential | undefined
  #token: string | undefined
  #joinKey: string | undefined
  #current: DaemonProcess | undefined
  #batchCount = 0
  #crashTrigger: { readonly at: number; readonly point: CommitPoint; readonly then: () => void } | undefined
  /** Set after `revoked`: the worker stays off until a person enrolls it again. */
  #isRevoked = false
  #isGone = false
  #acceptsAll = false
  #tokenRequest: object | undefined
  #downtimeMs = RESTART_MS

  constructor(options: DaemonWorkerOptions) {
    this.plan = options.plan
    this.#options = options
  }

  // ---- SimWorker ---------------------------------------------------------------------------------------------------

  get process(): Process | undefined {
    return this.#current?.process
  }

  get isOn(): boolean {
    return this.#current !== undefined
  }

  get isGone(): boolean {
    return this.#isGone
  }

  get workerId(): string | undefined {
    return this.#credential?.workerId
  }

  get secret(): string | undefined {
    return this.#credential?.secret
  }

  get connection(): SimConnection | undefined {
    return this.#current?.connection
  }

  get isRegistered(): boolean {
    return this.#current?.daemon.status().online === true
  }

  get isEnding(): boolean {
    return this.#current?.isEnding === true
  }

  get reclaimableRunIds(): readonly string[] {
    const current = this.#current
    if (current === undefined) return []
    const busy = new Set([...current.executions, ...current.boots].map(({ runId }) => runId))
    const { hostClock } = current
    if (!hostClock.isConfirmed()) return []
    const over = [...this.#sandboxes.records.values()].filter(
      ({ runId, until }) =>
        until !== undefined && until <= hostClock.now() && !busy.has(runId) && !isUnpushed(runId),
    )
    return over.map(({ runId }) => runId)
  }

  sandboxDueAt(runId: string): number | undefined {
    return this.#sandboxes.records.get(runId)?.dueAt
  }

  get spendings(): readonly Spending[] {
    return this.#sandboxes.spendings
  }

  countUsageOf(runId: string): number {
    return this.#sandboxes.usageCounts.get(runId) ?? 0
  }

  takeToken(token: string): void {
    if (this.#credential === undefined) this.#enterSecret(token)
  }

  switchOn(): void {
    if (this.#current !== undefined || this.#isRevoked || this.#isGone) return
    if (this.#credential === undefined && this.#token === undefined && this.#joinKey === undefined)
      this.#requestToken()
    else this.#startDaemon()
  }

  crash(quiet: boolean): void {
    const current = this.#current
    if (current === undefined) return
    if (quiet) current.connection?.break(0.5, 1, undefined, undefined)
    else current.connection?.workerCloses()
    this.#endProcess(current)
    current.store.crash()
    this.#options.observer.onDaemonCrashed(this)
    this.#damageRows()
  }

  crashAtCommit(count: number, point: CommitPoint, then: () => void): boolean {
    if (this.#current === undefined) return false
    this.#crashTrigger = { at: this.#batchCount + count, point, then }
    return true
  }

  stop(how: 'drain' | 'hand back', patienceMs: number, downMs: number): boolean {
    const current = this.#current
    if (current === undefined) return false
    this.#downtimeMs = downMs
    current.isEnding = true
    const { time, observer } = this.#options
    observer.onLog(this, 'receives a stop signal')
    const begin = () => (how === 'drain' ? current.daemon.drain() : current.daemon.handBack())
    time.in(0, begin, current.process)
    time.in(patienceMs, () => current.daemon.stopNow(), current.process)
    return true
  }

  impairDisk(how: 'full' | 'slow' | 'broken', ms: number): boolean {
    const { full, broken } = this.#drive
    if (this.#current === undefined || full || broken) return false
    if (how === 'slow') this.#drive.flushMsMax = 100 + ms / 20
    else this.#drive[how] = true
    this.#current.store.onDriveChanged()
    this.#options.time.in(ms, () => this.#repairDisk())
    return true
  }

  sleep(ms: number): boolean {
    const { machine, time } = this.#options
    return this.#current !== undefined && putToSleep(machine, this.#current.process, time.now, ms)
  }

  /** Simulates somebody who copied the credential: the real daemon sees none of the frames on that connection. */
  connectWithCopiedCredential(): void {
    const current = this.#current
    const credential = this.#credential
    if (current === undefined || credential === undefined) return
    const { dial, time, random } = this.#options
    const opened = () =>
      connection.sendToHost({
        type: 'register',
        protocolVersion: PROTOCOL_VERSION,
        auth: { kind: 'credential', ...credential },
        name: this.plan.id,
        capabilities: { ...CAPABILITIES, maxConcurrency: this.plan.concurrency, version: VERSION },
        activeLeases: this.#claimedLeases(current),
      })
    const connection = dial(current.process, { onOpen: opened, onFrame: () => {}, onClose: () => {} }, true)
    connection.dial()
    time.in(random.fraction() * IMPOSTOR_MS_MAX, () => connection.workerCloses())
  }

  reportFalsePull(): boolean {
    return false
  }

  reportForeignLeases(foreign: readonly ForeignLease[]): void {
    const current = this.#current
    if (current?.connection === undefined) return
    const at = new Date(current.clock.now()).toISOString()
    for (const frame of foreignLeaseFrames(
      foreign,
      this.#claimedLeases(current),
      at,
      current.clock.monotonic(),
    ))
      current.connection.sendToHost(frame)
  }

  endFaults(): void {
    this.#acceptsAll = true
    this.#crashTrigger = undefined
    this.#repairDisk()
    this.#restartIfRejected()
    this.#options.time.in(LAST_FRAME_MS_MAX, () => {
      this.#restartIfRejected()
      this.switchOn()
    })
  }

  /** A hostile link makes the host reject frames that the daemon never sent; a person who sees this restarts it. */
  #restartIfRejected(): void {
    if (this.#current?.daemon.status().trouble?.includes('(malformed)') === true) this.crash(false)
  }

  jumpWallClock(ms: number): void {
    this.#options.machine.wallOffset += ms
  }

  enrollAgain(): void {
    this.#isRevoked = false
    this.switchOn()
  }

  remove(): void {
    this.crash(false)
    this.#isGone = true
  }

  // ---- processes of the daemon -------------------------------------------------------------------------------------

  #startDaemon(): void {
    const { time, plan, machine, observer } = this.#options
    const process: Process = {
      name: `${plan.id} at ${Math.floor(time.now)}`,
      dead: false,
      pausedUntil: 0,
      endOfTickCallbacks: [],
    }
    const awake = new SimClock(time, process, machine)
    const clock = machine.maySleep ? createSleepCountingClock(awake, awake.uptime) : awake
    const hostClock = new HostClock({ clock, log: this.#log(process) })
    const store = this.#store(process)
    const current: DaemonProcess = {
      process,
      clock,
      hostClock,
      store,
      executions: new Set(),
      boots: new Set(),
      connection: undefined,
      isEnding: false,
      daemon: createDaemon(this.#daemonDependencies({ process, clock, hostClock, store }, () => current)),
    }
    this.#current = current
    this.#downtimeMs = RESTART_MS
    observer.onDaemonStarted(this, this.#disk)
    time.in(
      0,
      () => {
        const started = current.daemon.start()
        if (!started.ok) observer.onBugReported(this, started.refusal.message, {})
      },
      process,
    )
  }

  #damageRows(): void {
    const { damage, observer } = this.#options
    if (damage === undefined || this.#acceptsAll) return
    const rows = damageAfterCrash(this.#disk, damage)
    if (rows.length > 0) observer.onRowsDamaged(this, this.#disk, rows)
  }

  #daemonDependencies(
    { process, clock, hostClock, store }: Pick<DaemonProcess, 'process' | 'clock' | 'hostClock' | 'store'>,
    current: () => DaemonProcess,
  ): DaemonDependencies {
    const { codehost, random, plan, sessionOf, stopAt, time } = this.#options
    const executor = new SimExecutor({
      plan,
      clock,
      hostClock,
      process,
      random,
      codehost,
      sessionOf,
      sandboxes: this.#sandboxes,
      now: () => time.now,
      isExecuted: (runId) => [...current().executions].some((each) => each.runId === runId),
      stopAt,
      observer: this.#executorObserver(current),
      acceptsAll: () => this.#acceptsAll,
    })
    return {
      clock,
      random: { bytes: (count) => randomBytes(random, count), fraction: () => random.fraction() },
      log: this.#log(process),
      meters: this.#meters(process),
      database: store.database,
      dialer: { dial: (listener) => this.#dial(current(), listener) },
      identity: this.#identity(process),
      executor,
      hostClock,
      makeScreen: createPlainScreen,
      capabilities: CAPABILITIES,
      name: plan.id,
      concurrency: plan.concurrency,
      version: VERSION,
      ...(plan.drainMsMax === undefined ? {} : { drainMsMax: plan.drainMsMax }),
      ...(plan.job === undefined ? {} : { once: true, idleMsMax: plan.job.idleMsMax }),
      onEnd: (end) => this.#onDaemonEnded(current(), end),
    }
  }

  #onDaemonEnded(current: DaemonProcess, end: DaemonEnd): void {
    const { observer, time } = this.#options
    observer.onDaemonEnded(this, end)
    time.in(
      1,
      () => {
        void current.store.close()
        current.connection?.workerCloses()
        this.#endProcess(current)
        if (end.is === 'revoked') this.#isRevoked = true
        else time.in(this.#downtimeMs, () => this.switchOn())
      },
      current.process,
    )
  }

  /** The executions and booted sandboxes end with the process. */
  #endProcess(current: DaemonProcess): void {
    current.process.dead = true
    for (const execution of current.executions) this.#options.observer.onExecutionStopped(execution)
    for (const boot of current.boots) this.#options.observer.onBootGone(boot)
    this.#options.observer.onDisconnected(this)
    current.executions.clear()
    current.boots.clear()
    this.#current = undefined
    this.#isGone ||= this.plan.job !== undefined
    this.#crashTrigger = undefined
  }

  #enterSecret(secret: string): void {
    if (secret.startsWith('wj-')) this.#joinKey = secret
    else this.#token = secret
  }

  #requestToken(): void {
    const { requestToken: askForToken, time } = this.#options
    if (this.#tokenRequest !== undefined) return
    const request = {}
    this.#tokenRequest = request
    const isMine = () => this.#tokenRequest === request
    askForToken((token) => {
      if (!isMine()) return
      this.#tokenRequest = undefined
      this.#enterSecret(token)
      this.switchOn()
    })
    time.in(TOKEN_WAIT_MS_MAX, () => {
      if (!isMine()) return
      this.#tokenRequest = undefined
      this.switchOn()
    })
  }

  #repairDisk(): void {
    Object.assign(this.#drive, createDrive())
    this.#current?.store.onDriveChanged()
  }

  // ---- dependencies of the daemon ----------------------------------------------------------------------------------

  #store(process: Process): SimStore {
    const { time, random, observer } = this.#options
    return new SimStore({
      time,
      process,
      disk: this.#disk,
      drive: this.#drive,
      random,
      nextNumber: () => {
        this.#batchCount += 1
        return this.#batchCount
      },
      observer: {
        onCommitRequested: (batch) => this.#runCrashTrigger(batch, 'before flush'),
        onBeforeCommit: (batch) => observer.onBeforeCommit(this, batch),
        onCommitted: (batch) => {
          observer.onCommitted(this, batch)
          this.#runCrashTrigger(batch, 'after flush')
        },
      },
    })
  }

  #runCrashTrigger({ number }: DiskBatch, point: CommitPoint): void {
    if (
      this.#crashTrigger === undefined ||
      this.#crashTrigger.point !== point ||
      number < this.#crashTrigger.at
    )
      return
    const { then } = this.#crashTrigger
    this.#crashTrigger = undefined
    then()
  }

  #dial(current: DaemonProcess, listener: ConnectionListener): DialledConnection {
    const { dial, observer, time } = this.#options
    const connectionListener: SimConnectionListener = {
      onOpen: () => listener.onOpen(),
      onFrame: (_frame, text) => listener.onText(text),
      onUnknownFrame: (text) => listener.onText(text),
      onClose: () => {
        observer.onDisconnected(this)
        listener.onClose('the connection is gone')
      },
    }
    const connection = dial(current.process, connectionListener, false)
    current.connection = connection
    connection.dial()
    return {
      send: (text) => {
        if (current.process.dead) return
        // The host's checks and the laws validate this frame against the protocol.
        const frame = JSON.parse(text) as WorkerFrame
        observer.onSend(this, connection, frame, text)
        connection.sendToHost(frame, text)
      },
      backlogBytes: () => 0,
      close: () => {
        connection.workerCloses()
        observer.onDisconnected(this)
        time.in(0, () => listener.onClose('the connection was closed'), current.process)
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
        this.#options.time.in(this.#options.random.fraction() * 10, done, process)
      })
    const joinKey = this.#joinKey
    return {
      ...(joinKey === undefined ? {} : { joinKey }),
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
            this.#options.observer.onCredentialDeleted(this, this.#credential.workerId)
          this.#credential = undefined
        }),
    }
  }

  #executorObserver(current: () => DaemonProcess): ConstructorParameters<typeof SimExecutor>[0]['observer'] {
    const { observer } = this.#options
    return {
      onExecutionStarted: (execution) => {
        current().executions.add(execution)
        observer.onExecutionStarted(execution)
      },
      onExecutionStopped: (execution) => {
        if (current().executions.delete(execution)) observer.onExecutionStopped(execution)
      },
      onReport: (execution, report) => observer.onReport(execution, report),
      onStopRequested: (execution, order) => observer.onStopRequested(execution, order),
      onAgentStarted: (execution) => observer.onAgentStarted(execution),
      onPublished: (execution) => observer.onPublished(execution),
      onFollowUpStep: (execution, followUpId) => observer.onFollowUpStep(execution, followUpId),
      onBootStarted: (boot) => {
        current().boots.add(boot)
        observer.onBootStarted(boot)
      },
      onBootStageChanged: (boot) => observer.onBootStageChanged(boot),
      onBootGone: (boot) => {
        if (current().boots.delete(boot)) observer.onBootGone(boot)
      },
      onReclaim: (isClaimed) => observer.onReclaim(this, isClaimed),
      onSandboxReclaimed: (runId) => observer.onSandboxReclaimed(this, runId),
      onSandboxDiscarded: (runId) => observer.onSandboxDiscarded(this, runId),
    }
  }

  /** The leases that the daemon's disk says it holds. */
  #claimedLeases({ clock }: DaemonProcess): RunLease[] {
    const expiresAt = new Date(clock.now()).toISOString()
    return [...(this.#disk.snapshots.get('execution') ?? [])].flatMap(([id, { value }]) => {
      const { runId, stop } = fieldsOf(value)
      const { as } = { as: undefined, ...Object(stop) }
      return as === 'nothing' ? [] : [{ id, runId: String(runId), expiresAt, lastSeq: 0 }]
    })
  }

  #log(process: Process): Log {
    const logAt = (level: string) => (fields: object, message: string) => {
      if (process.dead) return
      this.#options.observer.onLog(this, `logs (${level}) ${message} ${JSON.stringify(fields)}`)
      if (level === 'error' && isBugMessage(message))
        this.#options.observer.onBugReported(this, message, fields)
    }
    return { debug: () => {}, info: logAt('info'), warn: logAt('warn'), error: logAt('error') }
  }

  #meters(process: Process): Meters {
    return {
      count: (name, labels) => {
        if (BUG_METRICS.has(name) && !process.dead)
          this.#options.observer.onBugReported(this, name, labels ?? {})
      },
      gauge: () => {},
      observe: () => {},
    }
  }
}
