/**
 * What a worker's machine is to everybody else in the world: switched on and off, struck by faults, asked a few things.
 *
 * Two kinds of them take part. One is a script, written from the specification alone; the other runs the product's own
 * daemon. Beside each other they keep host and daemon from being wrong in the same way.
 */
import type { DaemonEnd } from '../../actors/daemon/daemon-dependencies.ts'
import type { ExecutionReport, StopRequest } from '../../core/daemon/ports.ts'
import type { RunLease, RunOutcome, WorkerFrame } from '../../protocol/frames.ts'
import type { Random } from '../support/random.ts'
import type { CommitPoint, WorkerPlan } from './plan.ts'
import type { NumberedFrame } from './reference-outbox.ts'
import type { BootObserver } from './sandbox-boots.ts'
import type { SimCodehost } from './sim-codehost.ts'
import type { DiskBatch, SimDisk } from './sim-disk.ts'
import type { SimWire, WireListener } from './sim-wire.ts'
import type { Process, SimMachine, Timeline } from './timeline.ts'

/** One execution of one run: what laws and people ask about it. */
export interface ObservedExecution {
  readonly leaseId: string
  readonly runId: string
  readonly worker: string
  readonly remote: string
  /** The true time at which its worker ends it by itself, unless it hears from the host. */
  readonly stopAt: number
  readonly process: Process
}

/** One that the product's daemon has begun. */
export interface DaemonExecution extends ObservedExecution {
  /** It was told to end at once. */
  readonly killed: boolean
}

export interface SimWorker {
  readonly plan: WorkerPlan
  readonly process: Process | undefined
  readonly isOn: boolean
  readonly workerId: string | undefined
  readonly secret: string | undefined
  readonly wire: SimWire | undefined
  readonly isRegistered: boolean
  /** Runs whose sandboxes it could have taken back by now, for all that happens in them. */
  readonly reclaimableRunIds: readonly string[]
  /** All that people ever used in its sandbox of a run. */
  countUsageOf(runId: string): number
  /** Two machines may have been given one token. */
  takeToken(token: string): void
  switchOn(): void
  /** @param quiet the machine goes with it: nobody tells the host */
  crash(quiet: boolean): void
  /** At the `count`th commit of its disk from now. Answers whether it commits at all. */
  crashAtCommit(count: number, point: CommitPoint, then: () => void): boolean
  /** As a signal would: an end in good order, or after a while at once. Answers whether it knows signals. */
  stop(patienceMs: number, downMs: number): boolean
  /** What its disk is like from now on. Answers whether it has one that anything can happen to. */
  impairDisk(how: 'full' | 'slow' | 'broken', ms: number): boolean
  /** Another connection with its credential, while the old one stands or hangs. */
  connectWithCopiedCredential(): void
  /** Speaks for leases that are not its own, as only a compromised worker does. */
  reportForeignLeases(foreignLeases: readonly ForeignLease[]): void
  /** From now on it declines nothing that it can do, and everything about it is mended. */
  endFaults(): void
  /** Its wall clock jumps; nothing it does may depend on that. */
  jumpWallClock(ms: number): void
  /** It was revoked, and a person brings it back. */
  enrollAgain(): void
}

export interface ForeignLease {
  readonly id: string
  readonly runId: string
  readonly nextSeq: number
}

/** What is seen of every worker. */
export interface WorkerObserver {
  onFrameNumbered(worker: SimWorker, frame: NumberedFrame): void
  onExecutionStarted(execution: ObservedExecution): void
  onExecutionStopped(execution: ObservedExecution): void
  onOutboxTrimmed(leaseId: string, upTo: number): void
  onCredentialDeleted(worker: SimWorker, workerId: string): void
  onLog(worker: SimWorker, text: string): void
}

/** What is seen of the product's daemon, and of the disk and the hands it was given. */
export interface DaemonObserver extends WorkerObserver, BootObserver {
  onDaemonStarted(worker: SimWorker, disk: SimDisk): void
  onDaemonCrashed(worker: SimWorker): void
  onDaemonEnded(worker: SimWorker, end: DaemonEnd): void
  onSend(worker: SimWorker, wire: SimWire, frame: WorkerFrame, text: string): void
  onBeforeCommit(worker: SimWorker, batch: DiskBatch): void
  onCommitted(worker: SimWorker, batch: DiskBatch): void
  onReport(execution: ObservedExecution, report: ExecutionReport): void
  onStopRequested(execution: DaemonExecution, order: StopRequest): void
  /** Something of it reaches the code host. */
  onPublished(execution: DaemonExecution): void
  /** A follow-up has pushed, or said what it did. */
  onFollowUpStep(execution: DaemonExecution, followUpId: string): void
  onSandboxDiscarded(worker: SimWorker, runId: string): void
  onReclaim(worker: SimWorker, isClaimed: (runId: string) => boolean): void
  onSandboxReclaimed(worker: SimWorker, runId: string): void
  /** The daemon knows that its line is gone. */
  onDisconnected(worker: SimWorker): void
  /** Something that the product itself takes for a bug. */
  onBugReported(worker: SimWorker, what: string, fields: object): void
}

export interface SimWorkerOptions<W = WorkerObserver> {
  readonly plan: WorkerPlan
  readonly machine: SimMachine
  readonly time: Timeline
  readonly random: Random
  readonly observer: W
  /** `rogue`: whoever calls is not the worker itself. */
  readonly dial: (process: Process, listener: WireListener, isImpostor: boolean) => SimWire
  /** A person asks the host for a pairing token and types it in here. */
  readonly requestToken: (typeIn: (token: string) => void) => void
  readonly codehost: SimCodehost
}

const TOKENS = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0 }

/** An execution is known by its model's name: that is how the sums are told apart. */
export function executionCost(leaseId: string, inputTokens: number) {
  return { label: 'run', provider: 'agentA', model: leaseId, ...TOKENS, inputTokens, estimated: false }
}

/** A log of usage: `word` says which report it was. */
export const usageEntry = (word: string, at: string) => ({ id: word, at, model: 'm', ...TOKENS })

/** What is said for leases that are others', by one that claims its own, too. */
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
