/**
 * The front desk: all that the doors may ask of the lives behind it, or tell them.
 *
 * Values go in and values come out; no actor reference, snapshot or secret crosses it. What it answers is on disk
 * already: an answer is an effect like any other, run after the commit that made it true.
 */

import type { ArtifactLookup, Cancel, RunQuery, StoreState } from '../../core/ports.ts'
import type { Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type {
  ConnectPollResponse,
  ConnectProvider,
  ConnectResponse,
  CredentialsRequest,
  CredentialsResponse,
  StorageConnectResponse,
  StorageStatus,
  TrackerCallbackQuery,
} from '../../protocol/connect.ts'
import type { AttachOutput, DashboardPush, HelloFrame } from '../../protocol/dashboard.ts'
import type {
  CodehostRepo,
  CommentRequest,
  MergeRequest,
  MergeResponse,
  PullDetail,
  PullListResponse,
  ReplyRequest,
  ResolveThreadRequest,
  ReviewRequest,
  RunPullResponse,
} from '../../protocol/pulls.ts'
import type { ResumeRunResponse, SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { MemoriesResponse, Run, RunEvent, Ticket } from '../../protocol/run.ts'
import type { TrackerProject } from '../../protocol/tracker.ts'
import type {
  FleetDemandResponse,
  FleetResponse,
  HealthResponse,
  PairingTokenResponse,
  Placement,
  WorkerState,
} from '../../protocol/worker.ts'

export interface HostApi {
  health(): HealthResponse
  /** Redacted. The same object until something changes, so that its text can be kept. */
  config(): ServiceConfig
  /** The patch as it came in, already parsed and of the route's schema. */
  changeSettings(patch: Record<string, unknown>): Promise<Result<SettingsUpdateResponse>>

  // ---- tickets and runs
  /** Those eligible, in the order in which they will be taken. */
  tickets(): readonly Ticket[]
  /** By id or identifier. */
  runTicket(ticket: string): Promise<Result<Run>>
  runs(query: RunQuery): Result<RunPage>
  run(id: string): Result<Run>
  runEvents(
    id: string,
    query: { readonly after?: number; readonly limit?: number },
  ): Promise<Result<RunEvent[]>>
  artifact(id: string, name: string): Promise<Result<ArtifactFile>>
  cancelRun(id: string): Promise<Result<Run>>
  retryRun(id: string): Promise<Result<Run>>
  discardRun(id: string): Promise<Result<Run>>
  followUpRun(id: string): Promise<Result<Run>>
  resumeRun(id: string): Promise<Result<ResumeRunResponse>>
  /** Nothing happens when nothing is booted. */
  releaseRun(id: string): Promise<Result<Run>>
  /** Somebody opened a terminal. What keeps it from the session is told on it, as everything is. */
  attachView(id: string, view: ViewSender): ViewReceiver
  placement(id: string): Result<Placement>

  /** The run's pull request as it is right now. */
  runPull(id: string): Promise<Result<RunPullResponse>>

  // ---- credentials and connecting
  /** Each field by itself: what one provider refuses keeps no other from being saved. */
  changeCredentials(request: CredentialsRequest): Promise<Result<CredentialsResponse>>
  connect(provider: ConnectProvider): Promise<Result<ConnectResponse>>
  pollCodehost(): Promise<ConnectPollResponse>
  /** The browser is back from the tracker's consent page. */
  trackerCallback(query: TrackerCallbackQuery): Promise<CallbackPage>
  pasteTrackerAddress(address: string): Promise<Result<ConnectPollResponse>>
  storage(): Promise<StorageStatus>
  connectStorage(): Promise<Result<StorageConnectResponse>>

  // ---- code host and tracker: refused as `unknown`, `conflict` or `invalid`
  codehostRepos(): Promise<Result<readonly CodehostRepo[]>>
  pulls(): Promise<Result<PullListResponse>>
  /** By the key of the repository's mapping. */
  pull(repo: string, number: number): Promise<Result<PullDetail>>
  mergePull(repo: string, number: number, request: MergeRequest): Promise<Result<MergeResponse>>
  closePull(repo: string, number: number): Promise<Result<void>>
  reopenPull(repo: string, number: number): Promise<Result<void>>
  readyPull(repo: string, number: number): Promise<Result<void>>
  commentPull(repo: string, number: number, comment: CommentRequest): Promise<Result<void>>
  reviewPull(repo: string, number: number, review: ReviewRequest): Promise<Result<void>>
  replyPull(repo: string, number: number, reply: ReplyRequest): Promise<Result<void>>
  resolveThread(repo: string, number: number, request: ResolveThreadRequest): Promise<Result<void>>
  trackerProjects(): Promise<Result<readonly TrackerProject[]>>

  // ---- memories
  memories(): MemoriesResponse
  forgetMemory(repo: string, id: string): Promise<Result<MemoriesResponse>>
  clearMemories(repo: string): Promise<Result<MemoriesResponse>>

  // ---- workers
  fleet(): FleetResponse
  renameWorker(id: string, name: string): Promise<Result<FleetResponse>>
  drainWorker(id: string): Promise<Result<FleetResponse>>
  enableWorker(id: string): Promise<Result<FleetResponse>>
  revokeWorker(id: string): Promise<Result<FleetResponse>>
  mintPairingToken(): Result<PairingTokenResponse>
  /** Constant time, whatever is queued. */
  demand(workerId: string): Result<FleetDemandResponse>
  /** Answered once the change is durable and in force. */
  changeWorkerState(workerId: string, state: WorkerState): Promise<Result<FleetDemandResponse>>
  /** Somebody connected who may turn out to be a worker. Refused while stopping, and when too many have not said who they are. */
  connectWorker(link: WorkerSender): Result<WorkerReceiver>

  /** What a dashboard sees first. Redacted. */
  hello(): HelloFrame
  /** Told of every push, in order, after its cause became durable. `text`: the push as JSON, when somebody has it already. */
  onPush(listener: (push: DashboardPush, text?: string) => void): Cancel
  /** Origins beyond the built-in ones, as configured right now. */
  allowedOrigins(): readonly string[]
  /** Does this credential belong to that worker? The same refusal for every wrong pair. */
  admitWorker(workerId: string, secret: string): Result<{ readonly workerId: string }>
  /** Whether new work may be accepted: not while stopping. */
  isOpen(): boolean
  storeState(): StoreState
  /** Brings those figures up to date that are only worth having when somebody looks. */
  updateGauges(): void
  /** How many actors of each kind there are now. */
  actorsByKind(): ReadonlyMap<string, number>
}

/** What a browser shows at the end of a journey to the tracker. */
export interface CallbackPage {
  readonly status: number
  readonly html: string
}

/** `more`: there are older ones than the last of these. */
export interface RunPage {
  readonly runs: readonly Run[]
  readonly more: boolean
}

export type ArtifactFile = Extract<ArtifactLookup, { readonly is: 'file' }>

/** One terminal view, as its door holds it. Once closed, whatever is asked of it does nothing. */
export interface ViewSender {
  /**
   * Answers whether it was taken: not when too much waits already, and then the view is being cut off. `text`: the very
   * frame as JSON, from whoever has it already.
   */
  send(frame: AttachOutput, text?: string): boolean
  close(code: number, reason: string): void
}

/** The other end: what the door tells the host of it. Never throws. */
export interface ViewReceiver {
  onInput(data: string): void
  onResize(cols: number, rows: number): void
  onClosed(): void
}

/** The wire to one worker, as its door holds it. Once closed, whatever is asked of it does nothing. */
export interface WorkerSender {
  /** Where it comes from, for people. */
  readonly address: string
  /** One text frame. Answers whether it was taken: not when too much waits already, and then the line is being cut. */
  send(text: string): boolean
  /** Says goodbye once everything sent before has left. */
  close(code: number, reason: string): void
}

/** The other end of that wire: what the door tells the host of it. */
export interface WorkerReceiver {
  /** One text frame, within the bound that `frameBytesMax` says. Never throws. */
  onText(text: string): void
  /** A frame that is none: too long, or not text. The line is rejected as malformed. */
  onUnreadable(reason: string): void
  /** The wire is gone; nothing is sent to it any more. */
  onClosed(): void
  /** Smaller until it has said who it is. */
  frameBytesMax(): number
}
