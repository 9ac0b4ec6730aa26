/**
 * The interfaces through which the actors of a worker daemon reach the outside world, as types only.
 *
 * `worker/`, `store/` and `bin/` implement these ports, and so does the simulation. The daemon decides what happens
 * to an execution and when; the executor carries it out. Only a job contains secrets: actors pass the job on and
 * never keep it, so no secret reaches a snapshot, a log or the inspector.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import type {
  AgentJob,
  ExpiredSandbox,
  FailureKind,
  Job,
  RunOutcome,
  RunPatch,
  UsageSnapshot,
  WorkerAuth,
} from '../../protocol/frames.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import type { ReportedSandbox } from '../../protocol/run-sandbox.ts'
import type { ControlDatabase } from '../ports/store.ts'
import type { Result } from '../result.ts'
import type { BootedSandbox, BootRequest } from './terminal.ts'

// ---- reports of an execution -------------------------------------------------------------------------------------

/** A report of an execution. The daemon adds the lease and the frame number. */
export type ExecutionReport =
  | { readonly is: 'patch'; readonly patch: RunPatch }
  | { readonly is: 'event'; readonly event: ReportedEvent }
  | {
      readonly is: 'artifact'
      readonly name: string
      readonly part: number
      readonly final: boolean
      /** base64, at most ARTIFACT_PART_BYTES_MAX before encoding. */
      readonly data: string
    }
  | { readonly is: 'memories'; readonly facts: readonly string[] }
  | { readonly is: 'usage'; readonly snapshot: UsageSnapshot }

/** Accepts the reports of one execution. */
export interface ExecutionReporter {
  /** Queues a report. Never throws, and does nothing after the execution has ended. */
  report(report: ExecutionReport): void
  /** Resolves when the outbox has capacity. A reader of a stream awaits this between two chunks. */
  waitForCapacity(): Promise<void>
}

// ---- executing ---------------------------------------------------------------------------------------------------

export interface ExecutionRequest {
  readonly leaseId: string
  readonly workerId: string
  readonly job: Job
}

/** The execution of a job with an agent. */
export interface AgentExecutionRequest extends ExecutionRequest {
  readonly job: AgentJob
}

/**
 * The facts that a later phase needs. The execution's snapshot stores them, so they contain no secret and no long
 * text.
 */
export interface Progress {
  readonly sandbox?: ReportedSandbox
  readonly agentSessionId?: string
  readonly branch?: string
  /** The commit that was pushed to the code host. */
  readonly pushed?: string
  readonly prUrl?: string
  readonly prState?: 'open' | 'draft'
}

/** How the agent ended. The outputs are collected in every case. */
export interface AgentOutcome {
  readonly verdict: 'done' | 'failed' | 'stopped'
  /** The reason in one sentence, unless the verdict is `done`. */
  readonly reason?: string
  /** The kind of the failure, when it is known. */
  readonly failure?: FailureKind
}

/** Why an execution has to end before it is done. */
export interface StopRequest {
  /** `interrupt`: ask the agent to report its costs, then kill it. `kill`: kill the agent at once. */
  readonly how: 'interrupt' | 'kill'
  readonly reason: string
  /** The lease is lost, so the host will not accept outputs of this execution. */
  readonly leaseLost?: boolean
}

/**
 * An execution in phases. The daemon calls each phase once, in this order, and may call `stop` at any time. A stopped
 * phase resolves soon, with a refusal or with verdict `stopped`. No method rejects.
 */
export interface Execution {
  /** No agent works, so the run does not count as running. */
  readonly publishesOnly?: boolean
  /** Known once every process has exited: nobody goes on in the sandbox, so it is discarded when the end is on disk. */
  readonly leavesNothing?: boolean
  /** Fetches and checks out the repository, builds the sandbox and runs the repository's setup script. */
  prepare(): Promise<Result<Progress>>
  /** Runs the agent until it ends or is stopped. */
  runAgent(): Promise<AgentOutcome>
  /**
   * Collects the outputs (memories, artifacts, usage, costs), publishes the work when the agent is done, and returns
   * the outcome to report. After `stop` with `kill` it returns what is available and sends nothing to a code host.
   */
  finish(agent: AgentOutcome): Promise<RunOutcome>
  /** Ends the current phase early. */
  stop(request: StopRequest): void
  /** Resolves when every process of the execution has exited. */
  whenExited(): Promise<void>
}

/** Why a dispatch is refused: a class, then the reason. */
export type DispatchRefusal = `${'busy' | 'draining' | 'sandbox' | 'disk' | 'malformed'}: ${string}`

/** An execution whose daemon has died. */
export interface EndedExecution {
  readonly leaseId: string
  readonly runId: string
  /** The host accepts no outcome of it. */
  readonly isLeaseLost?: boolean
}

export interface Executor {
  /**
   * Returns why this job cannot be accepted now, or undefined. The answer is quick. A full disk is refused only if
   * deleting retained sandboxes does not make room. `isProtected`: runs whose disk stays.
   */
  refusalOf(job: Job, isProtected: (runId: string) => boolean): Promise<DispatchRefusal | undefined>
  /** Starts an execution. The executor calls `onProgress` when facts change that the snapshot must keep. */
  start(
    request: ExecutionRequest,
    reporter: ExecutionReporter,
    onProgress: (progress: Progress) => void,
  ): Execution
  /**
   * Collects, after a restart, the outputs of an execution that ended with the previous daemon, and retains its sandbox
   * from now on if an agent has worked there. What earlier executions in the same sandbox have spent is not its own.
   */
  recover(ended: EndedExecution, progress: Progress, retentionHours: number): Promise<RecoveredOutputs>
  /**
   * Boots the retained sandbox of a run for a person, without starting a process in it. The disk of a booted sandbox
   * is not reclaimed. Refuses with `gone` when the sandbox no longer exists, with `invalid` when it holds no session
   * to resume, and with `conflict` while an execution uses it.
   */
  boot(request: BootRequest): Promise<Result<BootedSandbox>>
  /** Deletes the retained sandbox of a run; does nothing when there is none. */
  discard(runId: string): Promise<void>
  /**
   * Deletes retained sandboxes that are expired or exceed the disk quota, and returns those expired ones that need the
   * host's word. The daemon calls this at its start and then from time to time. `isProtected`: runs whose outputs must
   * still be recovered; their disk stays.
   */
  reclaim(isProtected: (runId: string) => boolean): Promise<readonly ExpiredSandbox[]>
}

/** The time by which a worker judges the ages of sandboxes. */
export interface RetentionClock {
  /** Wall milliseconds: the host's where this machine's clock differs much. */
  now(): number
  /** Whether the host's clock agrees with this machine's; until then nothing is deleted because it has expired. */
  isConfirmed(): boolean
}

export interface RecoveredOutputs {
  readonly sandbox?: ReportedSandbox
  /** The costs of the run, as far as its disk records them. */
  readonly costs?: readonly CostEntry[]
  readonly usage?: readonly UsageSnapshot[]
}

// ---- the connection to the host ----------------------------------------------------------------------------------

export interface ConnectionListener {
  /** Called when the connection is open. */
  onOpen(): void
  /** Called for each text frame. */
  onText(text: string): void
  /** Called once, as the last event of the connection, even when it never opened. */
  onClose(reason: string): void
}

export interface DialledConnection {
  /** Sends a text frame. */
  send(text: string): void
  /** Bytes that were passed to `send` and are not sent yet. */
  backlogBytes(): number
  close(): void
}

export interface Dialer {
  /**
   * Opens a connection to the host.
   *
   * @param proof sent with the upgrade request, so that the host lets this worker in however many others wait
   */
  dial(listener: ConnectionListener, proof: WorkerAuth): DialledConnection
}

// ---- the identity of the worker ----------------------------------------------------------------------------------

export interface WorkerCredential {
  readonly workerId: string
  readonly secret: string
  /** The installation that knows the worker; absent until its host has named it. */
  readonly installation?: string
}

/** The worker's credential, pairing token and join key, in owner-only files on the worker's disk. */
export interface WorkerIdentity {
  /** With it the worker enrolls when it has no credential, and again when its enrollment is gone. */
  readonly joinKey?: string | undefined
  /** Returns the stored credential. */
  credential(): WorkerCredential | undefined
  /** Returns the pairing token that is not redeemed yet. */
  pairingToken(): string | undefined
  /** Stores the credential durably, and deletes the pairing token. */
  saveCredential(credential: WorkerCredential): Promise<void>
  /** Deletes the pairing token. */
  deletePairingToken(): Promise<void>
  /** Deletes the credential. */
  deleteCredential(): Promise<void>
}

// ---- the worker's database ---------------------------------------------------------------------------------------

/**
 * The worker's own database: snapshots, and the key-value collections `frame` and `outbox`. Reads return only durable
 * data.
 */
export type WorkerDatabase = Pick<
  ControlDatabase,
  'commit' | 'damage' | 'snapshots' | 'keyValues' | 'state' | 'onState'
>
