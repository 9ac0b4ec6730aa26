/**
 * The front desk: all that the doors may ask of the lives behind it, or tell them.
 *
 * Values go in and values come out; no actor reference, snapshot or secret crosses it. What it answers is on disk
 * already: an answer is an effect like any other, run after the commit that made it true.
 */

import type { ViewReceiver, ViewSender, WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
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
import type { DashboardPush, HelloFrame } from '../../protocol/dashboard.ts'
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
