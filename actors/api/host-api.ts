/**
 * The host API: everything that the listeners may ask of the host.
 *
 * Only values cross this interface; no actor reference, snapshot or secret does. Every answer is on disk already,
 * because an answer is an effect like any other and runs after the commit of its cause.
 */

import type { Cancel } from '../../core/ports/clock.ts'
import type {
  InspectionReceiver,
  InspectionSession,
  OutgoingPush,
  ViewReceiver,
  ViewSender,
  WorkerReceiver,
  WorkerSender,
} from '../../core/ports/connections.ts'
import type { ArtifactLookup, EventBatches, RunQuery, StoreState } from '../../core/ports/store.ts'
import type { Result } from '../../core/result.ts'
import type { EventPage, EventPageQuery } from '../../core/run/event-page.ts'
import type { AttentionResponse } from '../../protocol/attention.ts'
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
import type { ChangesHello, HelloFrame } from '../../protocol/dashboard.ts'
import type { FleetDemandResponse } from '../../protocol/demand.ts'
import type { ExplainResponse, Placement } from '../../protocol/explain.ts'
import type { JoinKeyRequest, JoinKeyResponse, JoinKeysResponse } from '../../protocol/join-key.ts'
import type { NewTicketRequest, NewTicketResponse } from '../../protocol/new-ticket.ts'
import type { ProvisionRequest, ProvisionResponse } from '../../protocol/provision.ts'
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
import type {
  DoneResponse,
  PauseResponse,
  ResumeRunResponse,
  SettingsUpdateResponse,
} from '../../protocol/routes.ts'
import type { MemoriesResponse, PublishOptions, Run, RunOptions, Ticket } from '../../protocol/run.ts'
import type { TrackerProject, TrackerStatus } from '../../protocol/tracker.ts'
import type {
  FleetResponse,
  HealthResponse,
  PairingTokenResponse,
  WorkerState,
} from '../../protocol/worker.ts'

export interface HostApi {
  health(): HealthResponse
  /** The redacted configuration. The same object until a change, so that its JSON can be cached. */
  config(): ServiceConfig
  /** @param patch parsed and checked against the route's schema */
  /** @param confirm exactly the changed settings that give power over the machine */
  changeSettings(
    patch: Record<string, unknown>,
    confirm?: readonly string[],
  ): Promise<Result<SettingsUpdateResponse>>
  /** Stores whether dispatching is paused. Resolves when the change is in force. */
  setPaused(paused: boolean): Promise<Result<PauseResponse>>

  // ---- tickets and runs
  /** The eligible tickets, in the order in which they will be queued. */
  tickets(): readonly Ticket[]
  /** The unfinished run of a ticket. */
  activeTicketRun(ticketId: string): Run | undefined
  /** The unfinished run of a ticket, or its newest. */
  ticketRun(ticketId: string): Run | undefined
  /** Creates a ticket in the tracker and, unless it is to wait, queues its run. */
  createTicket(request: NewTicketRequest): Promise<Result<NewTicketResponse>>
  /** @param ticket the id or the identifier */
  runTicket(ticket: string, options?: RunOptions): Promise<Result<Run>>
  runs(query: RunQuery): Result<RunPage>
  run(id: string): Result<Run>
  /** A run as a list has it: nobody opens it, so its pull request is not looked at. */
  listedRun(id: string): Result<Run>
  /** Refused as `invalid` when the parameters exclude one another. */
  runEvents(id: string, query: EventPageQuery): Result<RunEventPage>
  /** The index of the run's next event; 0 for an unknown run. Every event below it can be read. */
  nextEventIndex(id: string): number
  artifact(id: string, name: string): Promise<Result<ArtifactFile>>
  cancelRun(id: string): Promise<Result<Run>>
  /** A retry without instructions keeps those of the run. */
  retryRun(id: string, options?: RunOptions): Promise<Result<Run>>
  /** Refused when no finished work of the run waits in its sandbox; no agent is asked. */
  publishRun(id: string, request?: PublishOptions): Promise<Result<Run>>
  discardRun(id: string): Promise<Result<Run>>
  followUpRun(id: string, options?: RunOptions): Promise<Result<Run>>
  resumeRun(id: string): Promise<Result<ResumeRunResponse>>
  /** Nothing happens when the sandbox is not resumed. */
  releaseRun(id: string): Promise<Result<Run>>
  /** Attaches a terminal view. A refusal is sent to the view as a frame. */
  attachView(id: string, view: ViewSender): ViewReceiver
  placement(id: string): Result<Placement>
  /** @param ticket the id or the identifier, of a listed ticket or of one with a run */
  explainTicket(ticket: string): Result<ExplainResponse>
  explainRun(id: string): Result<ExplainResponse>
  /** Everything that needs a person now. Dashboards that have another list get this one soon. */
  attention(): AttentionResponse
  acknowledgeAttention(id: string): Promise<Result<AttentionResponse>>

  /** The current state of the run's pull request, asked from the code host. */
  runPull(id: string): Promise<Result<RunPullResponse>>

  // ---- credentials and connecting
  /** Checks and saves each field by itself, so a refused credential does not prevent the others. */
  changeCredentials(request: CredentialsRequest): Promise<Result<CredentialsResponse>>
  connect(provider: ConnectProvider): Promise<Result<ConnectResponse>>
  pollCodehost(): Promise<ConnectPollResponse>
  /** Handles the redirect from the tracker's consent page. */
  trackerCallback(query: TrackerCallbackQuery): Promise<RenderedCallbackPage>
  pasteTrackerAddress(address: string): Promise<Result<ConnectPollResponse>>
  storage(): Promise<StorageStatus>
  connectStorage(): Promise<Result<StorageConnectResponse>>

  // ---- code host and tracker: refused as `unknown`, `conflict` or `invalid`
  codehostRepos(): Promise<Result<readonly CodehostRepo[]>>
  pulls(): Promise<Result<PullListResponse>>
  /** @param repo the key of the repository's mapping */
  pull(repo: string, number: number): Promise<Result<PullDetail>>
  mergePull(repo: string, number: number, request: MergeRequest): Promise<Result<MergeResponse>>
  closePull(repo: string, number: number): Promise<Result<void>>
  reopenPull(repo: string, number: number): Promise<Result<void>>
  readyPull(repo: string, number: number): Promise<Result<void>>
  commentPull(repo: string, number: number, comment: CommentRequest): Promise<Result<void>>
  reviewPull(repo: string, number: number, review: ReviewRequest): Promise<Result<void>>
  replyPull(repo: string, number: number, reply: ReplyRequest): Promise<Result<void>>
  resolveThread(repo: string, number: number, request: ResolveThreadRequest): Promise<Result<void>>
  trackerStatus(): TrackerStatus
  trackerProjects(): Promise<Result<readonly TrackerProject[]>>

  // ---- memories
  memories(): MemoriesResponse
  keepMemory(repo: string, id: string): Promise<Result<MemoriesResponse>>
  forgetMemory(repo: string, id: string): Promise<Result<MemoriesResponse>>
  clearMemories(repo: string): Promise<Result<MemoriesResponse>>

  // ---- workers
  fleet(): FleetResponse
  renameWorker(id: string, name: string): Promise<Result<FleetResponse>>
  drainWorker(id: string): Promise<Result<FleetResponse>>
  enableWorker(id: string): Promise<Result<FleetResponse>>
  revokeWorker(id: string): Promise<Result<FleetResponse>>
  mintPairingToken(): Result<PairingTokenResponse>
  /** Sets up a machine over SSH; resolves when that has ended. Goes on when the caller goes away. */
  provisionWorker(request: ProvisionRequest): Promise<Result<ProvisionResponse>>
  joinKeys(): JoinKeysResponse
  /** Resolves with the key when its hash is on disk. */
  createJoinKey(request: JoinKeyRequest): Promise<Result<JoinKeyResponse>>
  /** @param withWorkers also revokes the workers that joined with the key */
  deleteJoinKey(id: string, withWorkers: boolean): Promise<Result<DoneResponse>>
  /** Takes constant time, independent of the queue. @param workerId absent: a join key asks, about the whole fleet */
  /** @param joinKeyId the key of a program that starts machines; its free seats limit `wanted` */
  demand(workerId: string | undefined, joinKeyId?: string): Result<FleetDemandResponse>
  /** Resolves when the change is durable and in effect. */
  changeWorkerState(
    workerId: string,
    state: WorkerState,
    by?: 'supervisor' | 'worker',
  ): Promise<Result<FleetDemandResponse>>
  /**
   * Accepts an unregistered connection. Refused while stopping, and when too many connections are unregistered.
   *
   * @param proof what `proveWorker` returned; absent without a valid proof
   */
  connectWorker(sender: WorkerSender, proof?: string): Result<WorkerReceiver>
  /**
   * Checks the secret of an upgrade request: a credential with its worker's id, or a pairing token or join key without.
   * A wrong secret counts as none.
   */
  proveWorker(workerId: string | undefined, secret: string): string | undefined
  /** Whether a connection without proof would be accepted now. */
  hasWorkerSeat(address: string): boolean

  /** The first frame of a dashboard, redacted. Pushes of differences take it into account. */
  hello(): HelloFrame
  /** The first frame of a dashboard that asks for the lists of runs and tickets itself. */
  changesHello(): ChangesHello
  /** Calls the listener for every push, in order, after its cause became durable. */
  onPush(listener: (push: OutgoingPush) => void): Cancel
  /** The configured origins that are allowed in addition to the built-in ones. */
  allowedOrigins(): readonly string[]
  /** Checks a worker's credential. Every wrong pair receives the same refusal. */
  admitWorker(workerId: string, secret: string): Result<{ readonly workerId: string }>
  /** Checks a join key, used up or not. Refused as a worker with a wrong credential is. */
  admitJoinKey(key: string): Result<{ readonly id: string }>
  /** Begins to watch the actors of this process. Refused as `conflict` when too many do. */
  inspect(receiver: InspectionReceiver): Result<InspectionSession>
  /** Whether new work may be accepted: not while stopping. */
  isOpen(): boolean
  storeState(): StoreState
  /** Updates the gauges that are computed only on demand. */
  updateGauges(): void
  /** The number of live actors by kind. */
  actorsByKind(): ReadonlyMap<string, number>
}

/** The web page at the end of the tracker's redirect flow. */
export interface RenderedCallbackPage {
  readonly status: number
  readonly html: string
}

/** `more`: older runs follow after the last of these. */
export interface RunPage {
  readonly runs: readonly Run[]
  readonly more: boolean
}

/** `prev` and `next`: the queries of the pages beside a page, where the log has events there. */
export interface RunEventPage extends Omit<EventPage, 'read'> {
  readonly events: EventBatches
}

export type ArtifactFile = Extract<ArtifactLookup, { readonly is: 'file' }>
