/**
 * What the lives of a worker daemon need from the world, as types only.
 *
 * `worker/`, `store/` and `bin/` satisfy these, and so does a simulation. The daemon decides what happens to an
 * execution and when; hands do it. A secret is in a job and nowhere else: the job is handed on and never kept in a
 * life, so it can't reach a record, a log or the inspector.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import type { Job, RunOutcome, RunPatch, UsageSnapshot } from '../../protocol/frames.ts'
import type { ReportedEvent, RunSandbox } from '../../protocol/run.ts'
import type { ControlDatabase } from '../ports.ts'
import type { Result } from '../result.ts'
import type { BootedSandbox, BootRequest } from './terminal.ts'

// ---- what an execution tells -------------------------------------------------------------------------------------

/** One report. The daemon gives it its lease and its number. */
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

export interface ExecutionReporter {
  /** Never throws, and does nothing once the execution is over. */
  report(report: ExecutionReport): void
  /** Resolves when there is room for more: whoever reads a stream waits for it between two pieces. */
  waitForCapacity(): Promise<void>
}

// ---- executing ---------------------------------------------------------------------------------------------------

export interface ExecutionRequest {
  readonly leaseId: string
  readonly workerId: string
  readonly job: Job
}

/** What outlives a phase: known to the record of the execution, so it holds no secret and no long text. */
export interface Progress {
  readonly sandbox?: RunSandbox
  readonly agentSessionId?: string
  readonly branch?: string
  /** The commit that is on the code host. */
  readonly pushed?: string
  readonly prUrl?: string
  readonly prState?: 'open' | 'draft'
}

/** How the agent's part ended. Whatever it is, what the agent left is collected. */
export interface AgentOutcome {
  readonly verdict: 'done' | 'failed' | 'stopped'
  /** Why, unless it is done: one sentence. */
  readonly reason?: string
}

/** Why an execution has to end before it is done. */
export interface StopRequest {
  /**
   * `interrupt`: the agent first gets the chance to say what it has spent, then it is killed.
   * `kill`: at once.
   */
  readonly how: 'interrupt' | 'kill'
  readonly reason: string
  /** The lease is gone: nobody will ask this machine for what it leaves. */
  readonly leaseLost?: boolean
}

/**
 * One execution, phase by phase; the daemon calls each once, in this order, and may call `stop` at any time. A phase
 * that is stopped resolves soon, with a refusal or with verdict `stopped`. None of them rejects.
 */
export interface Execution {
  /** Fetches, checks out, builds the sandbox, runs the repository's setup. */
  prepare(): Promise<Result<Progress>>
  runAgent(): Promise<AgentOutcome>
  /**
   * Collects what is left (memories, artifacts, usage, costs), publishes it when the agent is done, and answers what
   * to report. After `stop` with `kill` only what is at hand: nothing reaches a code host any more.
   */
  finish(agent: AgentOutcome): Promise<RunOutcome>
  stop(request: StopRequest): void
  /** Resolves when every process of the execution is gone, confirmed. */
  whenExited(): Promise<void>
}

/** The kinds of a refused dispatch, in front of their reason. */
export type DispatchRefusal = `${'busy' | 'draining' | 'sandbox' | 'disk' | 'malformed'}: ${string}`

export interface Executor {
  /** Asked before a dispatch is accepted; quick. */
  refusalOf(job: Job): Promise<DispatchRefusal | undefined>
  /** `progressed`: something worth remembering came about; the daemon puts it into the record. */
  start(
    request: ExecutionRequest,
    reporter: ExecutionReporter,
    onProgress: (progress: Progress) => void,
  ): Execution
  /** After a restart: what a run that died with the daemon left, with its sandbox retained from now on. */
  recover(runId: string, progress: Progress, retentionHours: number): Promise<RecoveredOutputs>
  /**
   * Readies the retained sandbox of a run for a person; nothing runs in it yet, and its disk is not taken back while
   * it is booted. Refused: `gone`, it is not here any more; `invalid`, there is no session in it that could go on;
   * `conflict`, something is being executed in it.
   */
  boot(request: BootRequest): Promise<Result<BootedSandbox>>
  /** Deletes the retained sandbox of a run; nothing happens when there is none. */
  discard(runId: string): Promise<void>
  /**
   * Takes back disk whose time is over, or that exceeds the quota. Called now and then, first of all at the start:
   * `isClaimed` are runs of which nothing may be executing, but which are still to be salvaged. Their disk stays.
   */
  reclaim(isProtected: (runId: string) => boolean): Promise<void>
}

export interface RecoveredOutputs {
  readonly sandbox?: RunSandbox
  /** What it had spent by then, as far as anything on its disk says so. */
  readonly costs?: readonly CostEntry[]
  readonly usage?: readonly UsageSnapshot[]
}

// ---- the line ----------------------------------------------------------------------------------------------------

export interface ConnectionListener {
  onOpen(): void
  onText(text: string): void
  /** Once, and the last that is heard of this line; also when it never opened. */
  onClose(reason: string): void
}

export interface DialledConnection {
  send(text: string): void
  /** Bytes handed over and not yet on their way. */
  backlogBytes(): number
  close(): void
}

export interface Dialer {
  dial(listener: ConnectionListener): DialledConnection
}

// ---- who the worker is -------------------------------------------------------------------------------------------

export interface WorkerCredential {
  readonly workerId: string
  readonly secret: string
}

/** On the worker's own disk, owner-only. */
export interface WorkerIdentity {
  credential(): WorkerCredential | undefined
  /** The pairing token that waits to be redeemed. */
  pairingToken(): string | undefined
  /** Durable when it resolves; the token is gone then. */
  saveCredential(credential: WorkerCredential): Promise<void>
  deletePairingToken(): Promise<void>
  deleteCredential(): Promise<void>
}

// ---- the worker's memory -----------------------------------------------------------------------------------------

/** The worker's own small database: lives, and facts (`frame`, `outbox`). Reads see only what is durable. */
export type WorkerDatabase = Pick<ControlDatabase, 'commit' | 'snapshots' | 'keyValues' | 'state' | 'onState'>
