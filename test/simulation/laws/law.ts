/**
 * What a law is, and what it may look at.
 *
 * A law sees the world from outside: what is on the host's disk, what crosses the wires, what runs on workers, what
 * people asked for. It shares no code with what it judges but the protocol's own words. It says no by throwing.
 */

import type { DaemonEnd } from '../../../actors/daemon/daemon-dependencies.ts'
import type { ExecutionReport, StopRequest } from '../../../core/daemon/ports.ts'
import type { ActorSnapshot } from '../../../core/ports.ts'
import type { HostFrame, WorkerFrame } from '../../../protocol/frames.ts'
import type { Run } from '../../../protocol/run.ts'
import type { NumberedFrame } from '../reference-outbox.ts'
import type { SandboxBoot } from '../sandbox-boots.ts'
import type { DiskBatch, SimDisk } from '../sim-disk.ts'
import type { SimWire } from '../sim-wire.ts'
import type { DaemonExecution, ObservedExecution, SimWorker } from '../sim-worker.ts'
import type { TerminalViewer } from '../terminal-viewers.ts'
import type { Process } from '../timeline.ts'

/** What a person, or a supervisor on a worker's machine, asks the front desk for. */
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
  readonly workerId?: string
  readonly runId?: string
  /** For `admit`: whether the credential is the right one. */
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
  readonly disk: SimDisk
  /** The leases on disk. */
  lease(id: string): LiveLease | undefined
  leasesOf(run: string): readonly LiveLease[]
  leasesOn(workerId: string): readonly LiveLease[]
  /** The worker as it is on disk. */
  worker(id: string): ActorSnapshot | undefined
  workerState(id: string): 'active' | 'draining' | undefined
  run(id: string): Run | undefined
  /** Somebody has asked for it to be discarded, with its sandbox and all that was in it. */
  wasDiscarded(run: string): boolean
  /** How a lease ended, as the disk has it. */
  howEnded(leaseId: string): string | undefined
  watermarkOf(leaseId: string): WatermarkRecord
  /** Whom the host has told that he is registered here, on this wire and since it was last started. */
  registeredAs(wire: SimWire): string | undefined
  currentWire(workerId: string): SimWire | undefined
  /** What a worker put under a number. */
  frameOf(leaseId: string, seq: number): NumberedFrame | undefined
  /** The number that a report got, by its word. */
  seqOfReport(reportId: string): number | undefined
  /** The disk of a machine that runs the product's daemon. */
  workerDiskOf(worker: string): SimDisk | undefined
  /** It is paused, or has just gone on: what it does now it should have done before. */
  isPausedOrResuming(process: Process): boolean
  /** Executions that run right now. */
  readonly executions: ReadonlySet<ObservedExecution>
  /** Sandboxes that are booted for people right now, or on their way there or back. */
  readonly boots: ReadonlySet<SandboxBoot>
  /** Where people sit at terminals, or sat. */
  readonly viewers: ReadonlySet<TerminalViewer>
  /** Nothing was the matter with the line to a worker, nor with either end of it, for a while. */
  isLinkSteady(worker: string): boolean
  /** The host is up, and has not slept for a while: after a sleep it gives everybody more time. */
  isHostAwake(): boolean
  /** How much people have used in a run's sandboxes, in entries of their logs. */
  countUsageOf(runId: string): number
  /** What nobody but a sandbox may ever see. */
  readonly secret: string
  /** How often a follow-up was pushed, and its summary said. */
  countFollowUpSteps(
    runId: string,
    followUpId: string,
  ): { readonly pushes: number; readonly summaries: number }
  /** Runs of which nothing was archived when a person's session was: by two machines' clocks, what is whose is a guess. */
  readonly approximatedRuns: ReadonlySet<string>
  /** A worker's wall clock was set to another time: nothing that is told by it can be put in order. */
  readonly hasWallClockJumped: boolean
  /** Something was longer silent, slow or asleep than a dispatch is waited for. */
  readonly isDisturbed: boolean
  /** Somebody repeats, reorders, drops and invents frames, as no connection does. */
  readonly hasHostileLink: boolean
  /** Who registered with what: by wire. */
  registerFrameOf(wire: SimWire): Extract<WorkerFrame, { type: 'register' }> | undefined
}

export interface WatermarkRecord {
  readonly mark: number
  readonly lost: readonly (readonly [number, number])[]
}

export interface LawObserver {
  onHostStarting?(): void
  onHostServing?(): void
  /** About to be on disk: the last look at what was there before. */
  onBeforeCommit?(batch: DiskBatch): void
  onCommitted?(batch: DiskBatch): void
  onHostSends?(wire: SimWire, frame: HostFrame): void
  onHostReceives?(wire: SimWire, frame: WorkerFrame | undefined): void
  onWorkerReceives?(wire: SimWire, frame: HostFrame): void
  onExecutionStarted?(execution: ObservedExecution): void
  onExecutionStopped?(execution: ObservedExecution): void
  // Of the product's daemon alone:
  onWorkerSends?(worker: SimWorker, wire: SimWire, frame: WorkerFrame, text: string): void
  /** About to be on its disk, and there. */
  onBeforeWorkerCommit?(worker: SimWorker, batch: DiskBatch): void
  onWorkerCommitted?(worker: SimWorker, batch: DiskBatch): void
  onDaemonCrashed?(worker: SimWorker): void
  onDaemonEnded?(worker: SimWorker, end: DaemonEnd): void
  onReport?(execution: ObservedExecution, report: ExecutionReport): void
  onStopRequested?(execution: DaemonExecution, order: StopRequest): void
  onPublished?(execution: DaemonExecution): void
  onFollowUpStep?(execution: DaemonExecution, followUpId: string): void
  onSandboxDiscarded?(worker: SimWorker, runId: string): void
  onBootStarted?(boot: SandboxBoot): void
  onBootStageChanged?(boot: SandboxBoot): void
  onBootGone?(boot: SandboxBoot): void
  onReclaim?(worker: SimWorker, isClaimed: (runId: string) => boolean): void
  onSandboxReclaimed?(worker: SimWorker, runId: string): void
  onDisconnected?(worker: SimWorker): void
  /** Now and then: which sandboxes a worker could take back. */
  onReclaimableChecked?(worker: SimWorker, runIds: readonly string[]): void
  /** What a process writes into its log. */
  onLog?(text: string): void
  /** A fault has happened to a worker's machine. */
  onFault?(worker: SimWorker, fault: string): void
  /** A moment has passed. */
  onTick?(): void
  onOutboxTrimmed?(leaseId: string, upTo: number): void
  onCredentialDeleted?(workerId: string): void
  onRequest?(request: ApiRequest): void
  onResponse?(request: ApiRequest, ok: boolean, value: unknown): void
  onTicketMoved?(ticketId: string, state: string): void
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

// ---- what several laws read off the disk -----------------------------------------------------------------------------

export const TERMINAL_STATUSES: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export const isTerminal = (run: Run | undefined): boolean =>
  run !== undefined && TERMINAL_STATUSES.has(run.status)

/** A life's plain fields, of which a law reads one or two. */
export function fieldsOf(record: ActorSnapshot | undefined): Readonly<Record<string, unknown>> {
  const fields = record?.c
  return typeof fields === 'object' && fields !== null ? { ...fields } : {}
}
