/**
 * SimWorker is a worker's machine as the rest of the world sees it: it can be switched on and off, hit by faults,
 * and queried.
 *
 * Two implementations take part: a script written from the specification alone, and the product's daemon. Together
 * they keep host and daemon from making the same mistake.
 */
import type { DaemonEnd } from '../../actors/daemon/daemon-context.ts'
import type { ExecutionReport, StopRequest } from '../../core/daemon/ports.ts'
import type { RunLease, RunOutcome, WorkerFrame } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import type { DamagedRow } from './disk-damage.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import type { NumberedFrame } from './reference-outbox.ts'
import type { BootObserver, Spending } from './sandbox-boots.ts'
import type { SimCodehost } from './sim-codehost.ts'
import type { SimConnection, SimConnectionListener } from './sim-connection.ts'
import type { DiskBatch, SimDisk } from './sim-disk.ts'
import type { Process, SimMachine, Timeline } from './timeline.ts'

/** An execution of a run, as laws and people see it. */
export interface ObservedExecution {
  readonly leaseId: string
  readonly runId: string
  readonly worker: string
  readonly remote: string
  /** The true time at which its worker ends it without further frames from the host. */
  readonly stopAt: number
  readonly process: Process
}

/** An execution of the product's daemon. */
export interface DaemonExecution extends ObservedExecution {
  /** Whether it asks no agent, but publishes what an earlier execution has left. */
  readonly publishesOnly: boolean
  /** Whether it was asked to end at once. */
  readonly killed: boolean
}

export interface SimWorker {
  readonly plan: WorkerPlan
  readonly process: Process | undefined
  readonly isOn: boolean
  /** The machine was for one run, or was taken away, and never returns. */
  readonly isGone: boolean
  readonly workerId: string | undefined
  readonly secret: string | undefined
  readonly connection: SimConnection | undefined
  readonly isRegistered: boolean
  /** Whether its process was asked to stop. */
  readonly isEnding: boolean
  /** Runs whose sandboxes the worker could have reclaimed by now, because nothing uses them. */
  readonly reclaimableRunIds: readonly string[]
  /** The true time until which the worker has promised to keep a sandbox; undefined: it has none. */
  sandboxDueAt(runId: string): number | undefined
  /** The executions of the product's daemon that have spent something. */
  readonly spendings: readonly Spending[]
  /** Usage entries that people caused in its sandbox of a run. */
  countUsageOf(runId: string): number
  /** Gives the worker a pairing token; two machines may receive the same one. */
  takeToken(token: string): void
  switchOn(): void
  /** @param quiet the machine dies too, so the host learns nothing */
  crash(quiet: boolean): void
  /** Runs `then` at the `count`th commit of its disk from now. Returns whether the worker commits at all. */
  crashAtCommit(count: number, point: CommitPoint, then: () => void): boolean
  /**
   * Stops the daemon in good order, and at once after `patienceMs`: like a signal, or as the host that started it does,
   * which has the runs given back. Returns whether it handles that.
   */
  stop(how: 'drain' | 'hand back', patienceMs: number, downMs: number): boolean
  /** Changes the condition of its disk for a time. Returns whether its disk can fail. */
  impairDisk(how: 'full' | 'slow' | 'broken', ms: number): boolean
  /** Opens another connection with its credential while the first one stands or hangs. */
  connectWithCopiedCredential(): void
  /** Sends frames for leases of other workers, as only a compromised worker does. */
  reportForeignLeases(foreignLeases: readonly ForeignLease[]): void
  /**
   * Reports a pull request, as merged, that it has not opened, for every run that it executes within the time. Returns
   * whether it lies at all.
   */
  reportFalsePull(url: string, ms: number): boolean
  /** Repairs everything; from now on the worker declines nothing without need. */
  endFaults(): void
  /** Changes its wall clock, on which nothing may depend. */
  jumpWallClock(ms: number): void
  /** A person enrolls the revoked worker again. */
  enrollAgain(): void
  /** The machine sleeps, with its monotonic clock; returns whether it does. */
  sleep(ms: number): boolean
  /** Takes the machine away: it crashes and never returns. */
  remove(): void
}

export interface ForeignLease {
  readonly id: string
  readonly runId: string
  readonly nextSeq: number
}

/** Observes any worker. */
export interface WorkerObserver {
  onFrameNumbered(worker: SimWorker, frame: NumberedFrame): void
  onExecutionStarted(execution: ObservedExecution): void
  onExecutionStopped(execution: ObservedExecution): void
  onOutboxTrimmed(leaseId: string, upTo: number): void
  onCredentialDeleted(worker: SimWorker, workerId: string): void
  onLog(worker: SimWorker, text: string): void
}

/** Observes the product's daemon with its disk and executor. */
export interface DaemonObserver extends WorkerObserver, BootObserver {
  onDaemonStarted(worker: SimWorker, disk: SimDisk): void
  /** These rows cannot be read from now on. */
  onRowsDamaged(worker: SimWorker, disk: SimDisk, rows: readonly DamagedRow[]): void
  onDaemonCrashed(worker: SimWorker): void
  onDaemonEnded(worker: SimWorker, end: DaemonEnd): void
  onSend(worker: SimWorker, connection: SimConnection, frame: WorkerFrame, text: string): void
  onBeforeCommit(worker: SimWorker, batch: DiskBatch): void
  onCommitted(worker: SimWorker, batch: DiskBatch): void
  onReport(execution: ObservedExecution, report: ExecutionReport): void
  onStopRequested(execution: DaemonExecution, order: StopRequest): void
  /** The execution begins to spend money. */
  onAgentStarted(execution: DaemonExecution): void
  /** A request of the execution reaches the code host. */
  onPublished(execution: DaemonExecution): void
  /** A follow-up pushed or posted its summary. */
  onFollowUpStep(execution: DaemonExecution, followUpId: string): void
  onSandboxDiscarded(worker: SimWorker, runId: string): void
  onReclaim(worker: SimWorker, isClaimed: (runId: string) => boolean): void
  onSandboxReclaimed(worker: SimWorker, runId: string): void
  /** The daemon knows that its connection is gone. */
  onDisconnected(worker: SimWorker): void
  /** The product logged or counted something that only a bug causes. */
  onBugReported(worker: SimWorker, what: string, fields: object): void
}

export interface SimWorkerOptions<W = WorkerObserver> {
  readonly plan: WorkerPlan
  readonly machine: SimMachine
  readonly time: Timeline
  readonly random: Random
  readonly observer: W
  /** `isImpostor`: the caller is not the worker itself. */
  readonly dial: (process: Process, listener: SimConnectionListener, isImpostor: boolean) => SimConnection
  /** A person asks the host for a pairing token and types it in here. */
  readonly requestToken: (typeIn: (token: string) => void) => void
  readonly codehost: SimCodehost
}

const TOKENS = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 }

/** The model's name identifies the execution, so that the laws can tell the costs apart. */
export function executionCost(leaseId: string, inputTokens: number) {
  return { label: 'run', provider: 'agentA', model: leaseId, ...TOKENS, inputTokens, estimated: false }
}

/** A usage entry; `word` identifies the report. */
export const usageEntry = (word: string, at: string) => ({ id: word, at, model: 'm', ...TOKENS })

/** Frames for leases of other workers, by a worker that also claims its own. */
export function foreignLeaseFrames(
  foreignLeases: readonly ForeignLease[],
  claims: readonly RunLease[],
  at: string,
  sentAt: number,
): WorkerFrame[] {
  return foreignLeases.flatMap(({ id, runId, nextSeq: next }): WorkerFrame[] => {
    const outcome: RunOutcome = { status: 'completed', costs: [], agentSessionId: `${id} stolen` }
    const event = { type: 'log', at, stream: 'stdout', text: `${id} stolen` } as const
    const leases = [...claims, { id, runId, expiresAt: at, lastSeq: next }]
    return [
      { type: 'heartbeat', leases, attachSessions: 0, sentAt },
      { type: 'run-event', leaseId: id, seq: next, event },
      { type: 'lease-gap', leaseId: id, from: next, to: next + 3 },
      { type: 'run-complete', leaseId: id, seq: next + 1, outcome },
    ]
  })
}
