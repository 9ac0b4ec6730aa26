/**
 * HostMachine is the host's simulated machine: it starts a whole host, crashes it, and starts it again.
 *
 * The host is the product itself, created by `createHost` with this world's clock, disk, tracker and connections.
 */

import type { HostApi } from '../../actors/api/host-api.ts'
import { createHost, type Host, type HostDependencies } from '../../actors/root/create-host.ts'
import { EXIT_IN_USE } from '../../actors/root/root.module.ts'
import { BUG_MESSAGES } from '../../actors/runtime/commit-loop.ts'
import { createSleepCountingClock } from '../../bin/process/clock.ts'
import { itemIdOf } from '../../core/attention/collect-attention.ts'
import { isTakenOver } from '../../core/owner.ts'
import type { PullRequestApi } from '../../core/ports/code-host.ts'
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import type { Log, Meters } from '../../core/ports/log.ts'
import type { Tracker } from '../../core/ports/tracker.ts'
import { yes } from '../../core/result.ts'
import { renderConfig } from '../../core/settings/change.ts'
import { readConfig } from '../../core/settings/read.ts'
import type { CompletedConfig } from '../../protocol/config.ts'
import type { InspectFrame } from '../../protocol/inspection.ts'
import { DamageList } from '../../store/lmdb/damage-list.ts'
import { noProviders } from '../support/no-providers.ts'
import type { Random } from '../support/random.ts'
import { type DamagedHostRow, damageHost } from './host-damage.ts'
import type { CommitPoint } from './plan.ts'
import type { DiskBatch, SimDisk } from './sim-disk.ts'
import { BROKEN_DISK, type Drive, damageOf, SimStore } from './sim-store.ts'
import { REVIEW, STARTED } from './sim-tracker.ts'
import { type Process, putToSleep, SimClock, type SimMachine, type Timeline, wallTimeOf } from './timeline.ts'

/** The agent's key. No law allows it outside a sandbox. */
export const SECRET = 'sk-never-to-be-seen-0123456789'

/** In seeds whose remainder by eight is this, machines join with one key instead of pairing tokens. */
export const JOINING_SEED = 5

export const CONFIG_TEXT = renderConfig({
  tracker: {
    driver: 'local',
    path: '/tickets',
    pollSeconds: 30,
    startedState: STARTED,
    reviewState: REVIEW,
  },
  codehost: { driver: 'local', path: '/code' },
  sandbox: { maxLogMib: 1 },
  agent: { agentAApiKey: SECRET },
  repos: { web: { remote: 'o/web' } },
  worker: { local: false },
  fleet: { ephemeralSeconds: 60 },
})

export interface HostObserver {
  onStarting(process: Process): void
  /** Rows of the disk can't be read from now on. */
  onRowsDamaged(rows: readonly DamagedHostRow[]): void
  /** The host accepts connections. */
  onServing(process: Process): void
  onEnded(process: Process, how: string): void
  onCommitRequested(batch: DiskBatch): void
  onBeforeCommit(batch: DiskBatch): void
  onCommitted(batch: DiskBatch): void
  /** The product logged or counted something that only a bug causes. */
  onBugReported(what: string, fields: object): void
  onLog(level: string, fields: object, message: string): void
}

export interface HostMachineOptions {
  readonly time: Timeline
  readonly machine: SimMachine
  readonly disk: SimDisk
  readonly drive: Drive
  readonly random: Random
  readonly trackerFor: (process: Process, maySend: () => boolean) => Tracker
  readonly pullsFor: (process: Process) => PullRequestApi
  readonly observer: HostObserver
  /** Receives everything that the actors do from the moment at which the host serves. */
  readonly onInspected?: ((frame: InspectFrame) => void) | undefined
}

interface HostProcess {
  readonly process: Process
  readonly store: SimStore
  readonly known: DamageList
  readonly host: Host
  hostApi: HostApi | undefined
}

/** More than a host may have been off for. */
const LOST_CLOCK_MS = 40 * 24 * 3_600_000

/** How often a process asks whether its data directory is still its own. */
const OWNER_CHECK_MS = 1_000

/** Metrics that only a bug increases. */
export const BUG_METRICS = new Set(['actor_crashes_total', 'invariant_violations_total'])
/** A service manager starts a host that ended at once after this time. */
const CONFIG_WAIT_MS = 1_000
const initial = readConfig(CONFIG_TEXT)

export class HostMachine {
  /** True time of the last jump of the wall clock. */
  wallClockJumpedAt = Number.NEGATIVE_INFINITY
  readonly #options: HostMachineOptions
  #current: HostProcess | undefined
  #batchCount = 0
  #startCount = 0
  #crashTrigger: { at: number; readonly point: CommitPoint; readonly then: () => void } | undefined
  #restartAt: number | undefined
  #isClockLost = false
  /** Damages rows of the disk before the next start. */
  #damage: Random | undefined
  /** The last process closed its store in order, so that no start needs to check it. */
  #hasClosed = false

  constructor(options: HostMachineOptions) {
    this.#options = options
  }

  get process(): Process | undefined {
    return this.#current?.process
  }

  /** Wall clock minus true time, in milliseconds. */
  get wallOffset(): number {
    return this.#options.machine.wallOffset
  }

  get sleptMs(): number {
    return this.#options.machine.sleptMs
  }

  get wallNow(): number {
    return wallTimeOf(this.#options.machine, this.#options.time.now)
  }

  /** Number of entries of each kind that the host holds in memory. */
  get inMemoryCounts(): Readonly<Record<string, number>> {
    return this.#current?.host.countInMemory() ?? {}
  }

  /** Defined while the host accepts connections. */
  get hostApi(): HostApi | undefined {
    return this.#current?.hostApi
  }

  boot(): void {
    if (this.#current !== undefined) return
    this.#startCount += 1
    const { time, observer } = this.#options
    const process: Process = {
      name: `host ${this.#startCount}`,
      dead: false,
      pausedUntil: 0,
      endOfTickCallbacks: [],
    }
    time.in(
      0,
      () => {
        if (this.#current !== undefined) return
        const configuration = readConfiguration(this.#options.disk.config)
        // No host starts with half a file: the service manager tries again.
        if (configuration === undefined) return this.#bootIn(CONFIG_WAIT_MS)
        this.#damageRows()
        observer.onStarting(process)
        const current = this.#createProcess(process, configuration)
        this.#current = current
        current.host.start()
      },
      process,
    )
  }

  /** Ends the process at once, between two steps. */
  crash(downMs: number, how = 'crash'): void {
    const current = this.#current
    if (current === undefined) return
    this.#current = undefined
    current.process.dead = true
    this.#crashTrigger = undefined
    current.store.crash()
    this.#options.observer.onEnded(current.process, how)
    this.#bootIn(downMs)
  }

  /** Stops the host in good order, as a signal does. */
  stop(downMs: number): void {
    const current = this.#current
    if (current === undefined) return
    this.#restartAt = downMs
    this.#options.time.in(0, () => current.host.stop('asked to'), current.process)
  }

  /** Another host opens the data directory while the present one sleeps and so seems to be dead. */
  takeOver(): boolean {
    const old = this.#current
    const { time, random } = this.#options
    if (old === undefined || old.process.pausedUntil <= time.now) return false
    this.#current = undefined
    this.#crashTrigger = undefined
    this.#restartAt = undefined
    const noticedAt = old.process.pausedUntil + random.fraction() * OWNER_CHECK_MS
    time.at(noticedAt, () => old.store.onDriveChanged(), old.process)
    this.boot()
    return true
  }

  /** Runs `then` at the `count`th commit from now. */
  crashAtCommit(count: number, point: CommitPoint, then: () => void): void {
    if (this.#current !== undefined) this.#crashTrigger = { at: this.#batchCount + count, point, then }
  }

  /** The machine sleeps, with its monotonic clock; returns whether it does. */
  sleep(ms: number): boolean {
    const { machine, time } = this.#options
    return this.#current !== undefined && putToSleep(machine, this.#current.process, time.now, ms)
  }

  cancelCrashTrigger(): void {
    this.#crashTrigger = undefined
  }

  jumpWallClock(ms: number): void {
    this.wallClockJumpedAt = this.#options.time.now
    this.#options.machine.wallOffset += ms
  }

  /** The wall clock is weeks ahead, as without a battery; the next time it is set right. */
  loseWallClock(): void {
    this.#isClockLost = !this.#isClockLost
    this.jumpWallClock(this.#isClockLost ? LOST_CLOCK_MS : -LOST_CLOCK_MS)
  }

  /** Damage that the host has met, and that neither its list for people nor the answer about the run has. */
  unnamedDamage(): readonly string[] | undefined {
    const { hostApi, known } = this.#current ?? {}
    if (hostApi === undefined || known === undefined) return undefined
    const named = new Set(hostApi.attention().items.map(({ id }) => id))
    return known.all().flatMap((damage) => {
      const asked = damage.runId === undefined ? undefined : hostApi.run(damage.runId)
      const isRefused = asked === undefined || (!asked.ok && asked.refusal.kind === 'failed')
      return isRefused && named.has(itemIdOf(damage)) ? [] : [damage.id]
    })
  }

  damageBeforeStart(random: Random): void {
    this.#damage = random
  }

  /** A host that sleeps, and is being replaced, still has its rows in memory. */
  #damageRows(): void {
    const { disk, observer } = this.#options
    const random = this.#damage
    if (random === undefined || disk.owner?.dead !== true) return
    this.#damage = undefined
    observer.onRowsDamaged(damageHost(disk, random))
  }

  onDriveChanged(): void {
    this.#current?.store.onDriveChanged()
  }

  /** Calls the API in a step of the host's process, as a listener does. */
  callApi(run: (hostApi: HostApi) => void): void {
    const current = this.#current
    if (current === undefined) return
    const call = () => {
      // The page of a person whose host was taken over meanwhile asks the new one.
      if (current.hostApi !== undefined && this.#current === current) run(current.hostApi)
    }
    this.#options.time.in(0, call, current.process)
  }

  /**
   * Offers a new connection to the host; returns the accepting process, and the receiver if the host lets the
   * worker in.
   */
  connectWorker(sender: WorkerSender): { host: Process; end: WorkerReceiver | undefined } | undefined {
    const current = this.#current
    if (current?.hostApi === undefined || current.process.pausedUntil > this.#options.time.now)
      return undefined
    const answer = current.hostApi.connectWorker(sender)
    return { host: current.process, end: answer.ok ? answer.value : undefined }
  }

  #bootIn(ms: number): void {
    this.#options.time.in(ms, () => this.boot())
  }

  #createProcess(process: Process, configuration: CompletedConfig): HostProcess {
    const { time, machine, disk, drive, random, observer, trackerFor, pullsFor } = this.#options
    const clock = new SimClock(time, process, machine)
    const known = new DamageList()
    // The check at a start finds damaged rows, and not that others are missing.
    for (const { collection, key } of this.#hasClosed ? [] : disk.damagedRows())
      if (disk.damageAt(collection, key) !== 'lost') known.note(damageOf(collection, key))
    this.#hasClosed = false
    const store = new SimStore({
      known,
      time,
      process,
      disk,
      drive,
      random,
      nextNumber: () => {
        this.#batchCount += 1
        return this.#batchCount
      },
      observer: {
        onCommitRequested: (batch) => {
          observer.onCommitRequested(batch)
          this.#runCrashTrigger(batch, 'before flush')
        },
        onBeforeCommit: (batch) => observer.onBeforeCommit(batch),
        onCommitted: (batch) => {
          observer.onCommitted(batch)
          this.#runCrashTrigger(batch, 'after flush')
        },
      },
    })
    const pulls = pullsFor(process)
    const dependencies: HostDependencies & { tracker: () => Tracker } = {
      clock,
      ...(machine.maySleep ? { elapsedMs: createSleepCountingClock(clock, clock.uptime).monotonic } : {}),
      random: { bytes: (count) => randomBytes(random, count), fraction: () => random.fraction() },
      log: this.#log(process),
      meters: this.#meters(process),
      store,
      configuration,
      configText: disk.config,
      health: { ok: true, version: '0.1.0', sandboxProvider: 'bwrap' },
      tracker: () => trackerFor(process, () => !isTakenOver(store.database.state())),
      ...noProviders,
      pulls: () => yes(pulls),
      findTlsFault: () => undefined,
      openListeners: async (hostApi) => {
        if (process.dead) return new Promise(() => {})
        current.hostApi = hostApi
        this.#inspect(hostApi)
        observer.onServing(process)
        return yes({
          close: async () => {
            current.hostApi = undefined
          },
        })
      },
      finish: (exitCode, reason) => this.#onFinish(current, exitCode, reason),
    }
    const current: HostProcess = { process, store, known, host: createHost(dependencies), hostApi: undefined }
    return current
  }

  #inspect(hostApi: HostApi): void {
    const { onInspected } = this.#options
    if (onInspected === undefined) return
    const opened = hostApi.inspect({ send: onInspected, backlog: () => 0, isImmediate: true })
    if (opened.ok) opened.value.follow({ type: 'inspect-follow', actors: [], all: true, details: true })
  }

  #onFinish(current: HostProcess, exitCode: number, reason: string): void {
    if (current.process.dead) return
    const { time, observer } = this.#options
    observer.onLog('info', { exitCode }, `the host ends: ${reason}`)
    const isOwner = this.#options.disk.owner === current.process
    const isRight = reason.includes(BROKEN_DISK) || (!isOwner && exitCode === EXIT_IN_USE)
    if (exitCode !== 0 && !isRight) observer.onBugReported(`the host ended with ${exitCode}: ${reason}`, {})
    void current.store.close()
    this.#hasClosed = exitCode === 0
    time.in(
      1,
      () => {
        if (current.process.dead) return
        current.process.dead = true
        observer.onEnded(current.process, `exit ${exitCode}`)
        if (this.#current !== current) return
        this.#current = undefined
        this.#bootIn(this.#restartAt ?? 1_000)
        this.#restartAt = undefined
      },
      current.process,
    )
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

  #log(process: Process): Log {
    const logAt = (level: string) => (fields: object, message: string) => {
      if (process.dead) return
      this.#options.observer.onLog(level, fields, message)
      if (level === 'error' && isBugMessage(message)) this.#options.observer.onBugReported(message, fields)
    }
    return { debug: () => {}, info: logAt('info'), warn: logAt('warn'), error: logAt('error') }
  }

  #meters(process: Process): Meters {
    return {
      count: (name, labels) => {
        if (BUG_METRICS.has(name) && !process.dead) this.#options.observer.onBugReported(name, labels ?? {})
      },
      gauge: () => {},
      observe: () => {},
    }
  }
}

const BUG_TEXTS: ReadonlySet<string> = new Set(Object.values(BUG_MESSAGES))

/** Whether the product logs this message only for its own bugs. */
export const isBugMessage = (message: string): boolean => BUG_TEXTS.has(message)

export function randomBytes(random: Random, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, () => random.below(256))
}

function readConfiguration(text: string | undefined): CompletedConfig | undefined {
  const read = text === CONFIG_TEXT ? initial : readConfig(text)
  return read.ok ? read.value : undefined
}
