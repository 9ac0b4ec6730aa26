/**
 * Defines what a law is and what it may observe.
 *
 * A law sees the world from outside: the host's disk, the frames, the processes on workers, and the requests of
 * people. A law shares no code with the product except the protocol's types. To report a violation, it throws.
 */
import type { DaemonEnd } from '../../../actors/daemon/daemon-context.ts'
import type { ExecutionReport, StopRequest } from '../../../core/daemon/ports.ts'
import type { ActorSnapshot } from '../../../core/ports/store.ts'
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { Run } from '../../../protocol/run.ts'
import type { DamagedRow, LostRows } from '../disk-damage.ts'
import type { HostDamage } from '../host-damage.ts'
import type { NumberedFrame } from '../reference-outbox.ts'
import type { SandboxBoot } from '../sandbox-boots.ts'
import type { SimConnection } from '../sim-connection.ts'
import type { DiskBatch, SimDisk } from '../sim-disk.ts'
import type { TicketFacts } from '../sim-tracker.ts'
import type { DaemonExecution, ObservedExecution, SimWorker } from '../sim-worker.ts'
import type { TerminalViewer } from '../terminal-viewers.ts'
import type { Process } from '../timeline.ts'

/** A request to the host's API by a person, or by a supervisor on a worker's machine. */
export interface ApiRequest {
  readonly operation:
    | 'cancel'
    | 'retry'
    | 'discard'
    | 'drain'
    | 'enable'
    | 'revoke'
    | 'own drain'
    | 'own enable'
    | 'admit'
    | 'token'
    | 'resume'
    | 'attach'
    | 'release'
    | 'follow up'
    | 'change settings'
    /** A patch that the host must refuse. */
    | 'unfit change'
  readonly workerId?: string
  readonly runId?: string
  /** For `admit`: whether the request used the right credential. */
  readonly genuine?: boolean
}

export interface LiveLease {
  readonly id: string
  readonly runId: string
  readonly workerId: string
  readonly state: string
}

export interface LawView {
  now(): number
  /** The host's wall clock. */
  hostNow(): number
  /** How far the host's wall clock is ahead of the true time, if the clock of a worker agrees; otherwise zero. */
  sharedClockErrorMs(): number
  readonly disk: SimDisk
  /** All leases on disk that can be read. */
  readonly leases: readonly LiveLease[]
  /** A lease on disk. */
  lease(id: string): LiveLease | undefined
  leasesOf(run: string): readonly LiveLease[]
  leasesOn(workerId: string): readonly LiveLease[]
  /** The worker's snapshot on disk. */
  worker(id: string): ActorSnapshot | undefined
  workerState(id: string): 'active' | 'draining' | undefined
  run(id: string): Run | undefined
  /** Whether somebody asked to discard the run with its sandbox. */
  wasDiscarded(run: string): boolean
  /** How a lease ended, according to the disk. */
  howEnded(leaseId: string): string | undefined
  watermarkOf(leaseId: string): WatermarkRecord
  /** The worker id that the host confirmed on this connection since its last start. */
  registeredAs(connection: SimConnection): string | undefined
  currentConnection(workerId: string): SimConnection | undefined
  /** The frame that a worker sent under this number. */
  frameOf(leaseId: string, seq: number): NumberedFrame | undefined
  /** The number of the frame that carries a report, by the report's id. */
  seqOfReport(reportId: string): number | undefined
  /** The disk of a machine that runs the product's daemon; undefined for a script. */
  workerDiskOf(worker: string): SimDisk | undefined
  /** Whether the process is paused or just resumed, so that its overdue steps run only now. */
  isPausedOrResuming(process: Process): boolean
  /** Executions that run now. */
  readonly executions: ReadonlySet<ObservedExecution>
  /** Sandboxes that are booted for people now, including those that start or close. */
  readonly boots: ReadonlySet<SandboxBoot>
  /** All terminal views that people opened, including closed ones. */
  readonly viewers: ReadonlySet<TerminalViewer>
  /** Whether the link to a worker and both of its ends have worked without trouble for a while. */
  isLinkSteady(worker: string): boolean
  /** Whether the host runs and has not been paused recently: after a pause it extends every deadline. */
  isHostAwake(): boolean
  /** Whether the host's disk takes writes in its usual time. */
  isHostDiskWell(): boolean
  /** The shortest time for which the host waits for an absent worker, whatever the configuration is changed to. */
  readonly graceMsMin: number
  /** The redacted configuration in force; undefined while no host serves. */
  liveConfig(): object | undefined
  /** The rows that the disks of workers have lost. */
  readonly lostRows: Omit<LostRows, 'add'>
  /** The rows of the host's disk that were ever damaged. */
  readonly hostDamage: Omit<HostDamage, 'add'>
  /** The damage that the host knows of and tells nobody; undefined while the host does not answer. */
  unnamedDamage(): readonly string[] | undefined
  /** Usage entries that people caused in a run's sandboxes. */
  countUsageOf(runId: string): number
  /** The credential that only a sandbox may see. */
  readonly secret: string
  /** The run that opened the pull request of this address; undefined for a foreign or unmade one. */
  runOfPull(url: string): string | undefined
  /** Whether the pull request was ever in this state at the code host. */
  wasPullIn(url: string, state: string): boolean
  /** Every ticket at the tracker. */
  tickets(): readonly TicketFacts[]
  /** How often a follow-up pushed and posted its summary. */
  countFollowUpSteps(
    runId: string,
    followUpId: string,
  ): { readonly pushes: number; readonly summaries: number }
  /**
   * Runs with no archived usage when a person's session was exported: the split between run and session then
   * depends on two clocks.
   */
  readonly approximatedRuns: ReadonlySet<string>
  /** Whether a worker's wall clock jumped, so that its times order nothing. */
  readonly hasWallClockJumped: boolean
  readonly hasHostClockJumped: boolean
  /** Whether some link or process was silent, slow or paused longer than a dispatch waits for its answer. */
  readonly isDisturbed: boolean
  /** Whether some link repeats, reorders, drops and invents frames, as no real connection does. */
  readonly hasHostileLink: boolean
  /** The first `register` frame of a connection. */
  registerFrameOf(connection: SimConnection): Extract<WorkerFrame, { type: 'register' }> | undefined
}

export interface WatermarkRecord {
  readonly mark: number
  readonly lost: readonly (readonly [number, number])[]
  /** Of events for which the log had no room. */
  readonly leftOutBytes?: number
}

export interface LawObserver {
  onHostStarting?(): void
  onHostServing?(): void
  /** Called right before the batch reaches the disk, while the disk still shows the old state. */
  onBeforeCommit?(batch: DiskBatch): void
  onCommitted?(batch: DiskBatch): void
  onHostSends?(connection: SimConnection, frame: HostFrame): void
  onHostReceives?(connection: SimConnection, frame: WorkerFrame | undefined): void
  onWorkerReceives?(connection: SimConnection, frame: HostFrame): void
  onExecutionStarted?(execution: ObservedExecution): void
  onExecutionStopped?(execution: ObservedExecution): void
  // Only the product's daemon causes the calls from here to `onDisconnected`.
  onWorkerSends?(worker: SimWorker, connection: SimConnection, frame: WorkerFrame, text: string): void
  /** Called right before the batch reaches the worker's disk. */
  onBeforeWorkerCommit?(worker: SimWorker, batch: DiskBatch): void
  onWorkerCommitted?(worker: SimWorker, batch: DiskBatch): void
  onDaemonCrashed?(worker: SimWorker): void
  /** Called when rows of a worker's disk cannot be read from now on. */
  onRowsDamaged?(worker: SimWorker, rows: readonly DamagedRow[]): void
  onDaemonEnded?(worker: SimWorker, end: DaemonEnd): void
  onReport?(execution: ObservedExecution, report: ExecutionReport): void
  onStopRequested?(execution: DaemonExecution, order: StopRequest): void
  onAgentStarted?(execution: DaemonExecution): void
  onPublished?(execution: DaemonExecution): void
  onFollowUpStep?(execution: DaemonExecution, followUpId: string): void
  onSandboxDiscarded?(worker: SimWorker, runId: string): void
  onBootStarted?(boot: SandboxBoot): void
  onBootStageChanged?(boot: SandboxBoot): void
  onBootGone?(boot: SandboxBoot): void
  onReclaim?(worker: SimWorker, isClaimed: (runId: string) => boolean): void
  onSandboxReclaimed?(worker: SimWorker, runId: string): void
  onDisconnected?(worker: SimWorker): void
  /** Called regularly with the sandboxes that a worker could reclaim. */
  onReclaimableChecked?(worker: SimWorker, runIds: readonly string[]): void
  /** Called with each log line of a process. */
  onLog?(text: string): void
  /** Called when a fault hits a worker's machine. */
  onFault?(worker: SimWorker, fault: string): void
  /** Called at regular intervals. */
  onTick?(): void
  onOutboxTrimmed?(leaseId: string, upTo: number): void
  onCredentialDeleted?(workerId: string): void
  onRequest?(request: ApiRequest): void
  onResponse?(request: ApiRequest, ok: boolean, value: unknown): void
  onTicketMoved?(ticketId: string, state: string): void
  /** Called when a host sends a request that changes something at the tracker. */
  onHostActs?(host: Process, what: string): void
}

/** An observer that has this method. */
export type ObserverOf<Name extends keyof LawObserver> = Required<Pick<LawObserver, Name>>

/** Finds the observers that have a method, once: an event concerns few laws, and many events happen. */
export class ObserverList {
  readonly #observers: readonly LawObserver[]
  readonly #found = new Map<keyof LawObserver, readonly LawObserver[]>()

  constructor(observers: readonly LawObserver[]) {
    this.#observers = observers
  }

  with<Name extends keyof LawObserver>(name: Name): readonly ObserverOf<Name>[] {
    const found = this.#found.get(name) ?? this.#observers.filter((observer) => observer[name] !== undefined)
    this.#found.set(name, found)
    // The filter keeps only those with the method.
    return found as readonly LawObserver[] as readonly ObserverOf<Name>[]
  }
}

export type FailLaw = (what: string, facts?: object) => never

export interface Law {
  readonly number: string
  readonly sentence: string
  observe(view: LawView, fail: FailLaw): LawObserver
}

export class LawViolation extends Error {
  override readonly name = 'LawBroken'
  readonly law: string
  readonly sentence: string
  readonly what: string
  readonly facts: object
  readonly at: number

  constructor(law: string, sentence: string, what: string, facts: object, at: number) {
    super(`law ${law}: ${sentence}: ${what} ${JSON.stringify(facts)}`)
    this.law = law
    this.sentence = sentence
    this.what = what
    this.facts = facts
    this.at = at
  }
}

// ---- shared by several laws ------------------------------------------------------------------------------------------

export const TERMINAL_STATUSES: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export const isTerminal = (run: Run | undefined): boolean =>
  run !== undefined && TERMINAL_STATUSES.has(run.status)

/** A run whose record is damaged goes on nowhere. */
export const isDamagedRun = ({ hostDamage }: LawView, runId: string): boolean => hostDamage.has('run', runId)

/** A run whose lease is damaged waits until its worker, which may still execute it, has stopped. */
export const isLeaseDamaged = ({ disk, hostDamage }: LawView, runId: string): boolean =>
  !hostDamage.isEmpty && hostDamage.has('lease', String(fieldsOf(disk.snapshot('run', runId)).lease))

/** The fields of an actor's snapshot, of which a law reads one or two. */
export function fieldsOf(record: ActorSnapshot | undefined): Readonly<Record<string, unknown>> {
  const fields = record?.c
  return typeof fields === 'object' && fields !== null ? { ...fields } : {}
}
