/**
 * The table of all routes, one row each, in the order of the documentation.
 *
 * A row says how a request reaches the route, who may call it on which listener, what it receives and what it
 * returns. Listeners, the typed client and the OpenAPI document all read this table, so none of them can miss a
 * route.
 */
import Type, { type Static, type TObject, type TSchema } from 'typebox'
import { AcknowledgeRequest, AttentionResponse } from './attention.ts'
import { ConfigPatch, ServiceConfig } from './config.ts'
import {
  ConnectPollResponse,
  ConnectProvider,
  ConnectResponse,
  CredentialsRequest,
  CredentialsResponse,
  DeviceCode,
  DeviceToken,
  DeviceTokenRequest,
  HelperHealth,
  HelperIndex,
  PasteRequest,
  StorageConnectResponse,
  StorageStatus,
  TrackerAuthorizeQuery,
  TrackerCallbackQuery,
  TrackerRefreshRequest,
  TrackerTokenRequest,
  TrackerTokens,
} from './connect.ts'
import { AnyDashboardFrame, AttachInput, AttachOutput, DashboardRequest } from './dashboard.ts'
import { FleetDemandResponse } from './demand.ts'
import { ExplainResponse, Placement } from './explain.ts'
import { HostFrame, WorkerFrame } from './frames.ts'
import { InspectFrame, InspectRequest } from './inspection.ts'
import { JoinKeyRequest, JoinKeyResponse, JoinKeysResponse } from './join-key.ts'
import {
  CONFIRMED_KEYS_MAX,
  EVENTS_PAGE_DEFAULT,
  LIST_LIMIT_MAX,
  REPO_KEY_CHARS_MAX,
  SETTING_KEY_CHARS_MAX,
} from './limits.ts'
import { NewTicketRequest, NewTicketResponse } from './new-ticket.ts'
import { ProvisionRequest, ProvisionResponse } from './provision.ts'
import {
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
} from './pulls.ts'
import { MemoriesResponse, PublishOptions, Run, RunEvent, RunOptions, Ticket } from './run.ts'
import { RunListQuery, RunSummary, RunSummaryQuery } from './run-query.ts'
import { AnyObject, boundedList, Id, nonEmptyText, record, stringEnum, Text } from './schema-helpers.ts'
import { TicketListQuery, TicketRun, TicketSummary, TicketSummaryQuery } from './ticket-query.ts'
import { TrackerProject, TrackerStatus } from './tracker.ts'
import { FleetResponse, HealthResponse, PairingTokenResponse, RenameRequest, WorkerState } from './worker.ts'

// ---- the type of a row -----------------------------------------------------------------------------------------

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'
/**
 * The callers that may use a route. `worker-or-join-key`: a worker, or the holder of a join key, who names no worker.
 * `first-frame`: anyone may open the socket, and the first frame must register.
 */
export type RouteAccess = 'anyone' | 'launch-token' | 'worker' | 'worker-or-join-key' | 'first-frame'
export type ListenerName = 'management' | 'fleet' | 'helper'
export type RouteTag = 'service' | 'runs' | 'workers' | 'connect' | 'pulls' | 'memories' | 'helper'
/** A response that is not JSON. `frames`: the connection becomes a socket. */
export type PlainResponse = 'bytes' | 'html' | 'text' | 'redirect' | 'frames'

export interface Route {
  readonly method: Method
  readonly path: string
  readonly tag: RouteTag
  readonly access: RouteAccess
  readonly listeners: readonly ListenerName[]
  readonly socket?: true
  /** Frames from the client and to the client. */
  readonly frames?: { readonly from: TSchema; readonly to: TSchema }
  /** Schema with a property for each `:name` of the path. */
  readonly params?: TObject
  readonly query?: TObject
  readonly body?: TSchema
  /** The route also accepts a request without a body. */
  readonly isBodyOptional?: true
  readonly response: TSchema | PlainResponse
  /** The status of a success; 200 when absent. */
  readonly successStatus?: 201
  /** The response may be a page; then a Link header names the pages beside it. */
  readonly isPaged?: true
  /** The route's own error statuses. Statuses that every route may return (401, 405, 413, 503 …) are not repeated. */
  readonly errorStatuses: readonly number[]
  readonly summary: string
}

// ---- schemas that only routes use ------------------------------------------------------------------------------

const SettingKeys = boundedList(nonEmptyText(SETTING_KEY_CHARS_MAX), CONFIRMED_KEYS_MAX)

export const ErrorBody = record('ErrorBody', {
  error: Text,
  /** Only of a settings change that gives power over the machine: the keys that the request must confirm. */
  confirm: Type.Optional(SettingKeys),
})
export type ErrorBody = Static<typeof ErrorBody>

export const DoneResponse = record('Done', { ok: Type.Literal(true) })
export type DoneResponse = Static<typeof DoneResponse>

export const SettingsUpdateRequest = record('SettingsUpdateRequest', {
  patch: ConfigPatch,
  confirm: Type.Optional(SettingKeys),
})
export type SettingsUpdateRequest = Static<typeof SettingsUpdateRequest>

export const SettingsUpdateResponse = record('SettingsUpdateResponse', {
  config: ServiceConfig,
  applied: stringEnum(['live', 'restart']),
})
export type SettingsUpdateResponse = Static<typeof SettingsUpdateResponse>

export const StatusResponse = record('Status', {
  health: HealthResponse,
  tracker: TrackerStatus,
  paused: Type.Boolean(),
  workers: FleetResponse.properties.workers,
  runs: Type.Array(Run, {
    maxItems: LIST_LIMIT_MAX,
    description: 'The runs that have not ended, newest first.',
  }),
  attention: AttentionResponse.properties.items,
})
export type StatusResponse = Static<typeof StatusResponse>

export const PauseResponse = record('PauseResponse', { paused: Type.Boolean() })
export type PauseResponse = Static<typeof PauseResponse>

export const ResumeRunResponse = record('ResumeRunResponse', {
  run: Run,
  attach: record('AttachTarget', {
    kind: Type.Literal('worker'),
    workerId: Id,
    workerName: Text,
  }),
})
export type ResumeRunResponse = Static<typeof ResumeRunResponse>

export const MemoryRequest = record('MemoryRequest', { id: nonEmptyText(256) })
export type MemoryRequest = Static<typeof MemoryRequest>

const Limit = Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX })
const After = Type.Integer({ minimum: -1, maximum: Number.MAX_SAFE_INTEGER })

const RunEventsQuery = Type.Object({
  after: Type.Optional(After),
  before: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: `Only the events right before this index: \`limit\` of them, or ${EVENTS_PAGE_DEFAULT}.`,
    }),
  ),
  limit: Type.Optional(Limit),
  tail: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIST_LIMIT_MAX, description: 'Only the last events, as many.' }),
  ),
})
const DemandQuery = Type.Object({
  workerId: Type.Optional(nonEmptyText(256, 'Absent with a join key as the bearer.')),
})
const JoinKeyDeletionQuery = Type.Object({
  workers: Type.Optional(stringEnum(['1'], 'Also revokes the workers that joined with the key.')),
})
const WorkerStateQuery = Type.Object({
  workerId: nonEmptyText(256),
  state: WorkerState,
  by: Type.Optional(
    stringEnum(
      ['supervisor', 'worker'],
      'In whose name the worker is drained. With it active ends this drain alone: an operator’s drain stays. Without it active ends every drain.',
    ),
  ),
})

/** The query of routes that take no parameters. */
export const NoQuery = Type.Object({})
/** A browser can't set headers on a WebSocket, so its token may stand in the query. */
const SocketQuery = Type.Object({ token: Type.Optional(Type.String({ 'x-secret': true })) })

const DashboardQuery = Type.Object({
  ...SocketQuery.properties,
  changes: Type.Optional(
    stringEnum(
      ['1'],
      'Sends what has changed: a hello without runs and tickets, `runs-changed` and `tickets-changed`.',
    ),
  ),
})

const ById = Type.Object({ id: nonEmptyText(256) })
const Artifact = Type.Object({ id: nonEmptyText(256), name: nonEmptyText(1024) })
const Pull = Type.Object({
  repo: nonEmptyText(REPO_KEY_CHARS_MAX, 'The key of the repository mapping, URL-encoded.'),
  number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
})
const ByRemote = Type.Object({
  repo: nonEmptyText(REPO_KEY_CHARS_MAX, 'The repository as owner/name, URL-encoded.'),
})
const ByProvider = Type.Object({ provider: ConnectProvider })

// ---- the table -------------------------------------------------------------------------------------------------

/** Most routes are on the management listener and need the launch token. */
const managementRoute = { access: 'launch-token', listeners: ['management'] } as const
const service = { ...managementRoute, tag: 'service' } as const
const runs = { ...managementRoute, tag: 'runs' } as const
const workers = { ...managementRoute, tag: 'workers' } as const
const connect = { ...managementRoute, tag: 'connect' } as const
const pulls = { ...managementRoute, tag: 'pulls' } as const
const memories = { ...managementRoute, tag: 'memories' } as const
const supervisor = { tag: 'workers', access: 'worker', listeners: ['management', 'fleet'] } as const
const helper = { tag: 'helper', access: 'anyone', listeners: ['helper'] } as const

export const routes = {
  // -- service and configuration
  health: {
    ...service,
    access: 'anyone',
    method: 'GET',
    path: '/api/health',
    response: HealthResponse,
    errorStatuses: [],
    summary: 'Whether the service is up, its version, and whether this machine can run agents itself.',
  },
  readStatus: {
    ...service,
    method: 'GET',
    path: '/api/status',
    response: StatusResponse,
    errorStatuses: [],
    summary:
      'In one answer what `switchyard status --json` prints: health, tracker, workers, runs, attention.',
  },
  readConfig: {
    ...service,
    method: 'GET',
    path: '/api/config',
    response: ServiceConfig,
    errorStatuses: [],
    summary: 'The configuration in force, with every secret masked.',
  },
  changeSettings: {
    ...service,
    method: 'PUT',
    path: '/api/settings',
    body: SettingsUpdateRequest,
    response: SettingsUpdateResponse,
    errorStatuses: [400, 409],
    summary: 'Merges a patch into the configuration (null deletes); 409 names keys that it must confirm.',
  },
  changeCredentials: {
    ...service,
    method: 'PUT',
    path: '/api/settings/credentials',
    body: CredentialsRequest,
    response: CredentialsResponse,
    errorStatuses: [400],
    summary:
      'Checks each credential sent with its provider and keeps those that work; an empty one disconnects.',
  },
  pauseDispatch: {
    ...service,
    method: 'POST',
    path: '/api/pause',
    response: PauseResponse,
    errorStatuses: [],
    summary: 'Dispatches no more runs until it is resumed; running work continues. Sets policy.paused.',
  },
  resumeDispatch: {
    ...service,
    method: 'POST',
    path: '/api/resume',
    response: PauseResponse,
    errorStatuses: [],
    summary: 'Dispatches queued runs again. Unsets policy.paused.',
  },
  dashboardSocket: {
    ...service,
    method: 'GET',
    path: '/ws',
    query: DashboardQuery,
    socket: true,
    frames: { from: DashboardRequest, to: AnyDashboardFrame },
    response: 'frames',
    errorStatuses: [],
    summary: 'Everything at once in a hello frame, then every change as it happens.',
  },
  inspectSocket: {
    ...service,
    method: 'GET',
    path: '/ws/inspect',
    query: SocketQuery,
    socket: true,
    frames: { from: InspectRequest, to: InspectFrame },
    response: 'frames',
    errorStatuses: [],
    summary: 'The live actors of this host with their states, and what happens to those that are followed.',
  },
  readOpenApi: {
    ...service,
    method: 'GET',
    path: '/api/openapi.json',
    response: AnyObject,
    errorStatuses: [],
    summary: 'This interface as an OpenAPI document.',
  },
  readMetrics: {
    ...service,
    method: 'GET',
    path: '/metrics',
    response: 'text',
    errorStatuses: [],
    summary: 'Figures about the service in the Prometheus text format.',
  },

  // -- tickets and runs
  listTickets: {
    ...runs,
    method: 'GET',
    path: '/api/tickets',
    query: TicketListQuery,
    response: Type.Array(Ticket),
    isPaged: true,
    errorStatuses: [400],
    summary: 'The eligible tickets as they will be taken; all of them unless a limit is given.',
  },
  listTicketRuns: {
    ...runs,
    method: 'GET',
    path: '/api/tickets/runs',
    query: TicketListQuery,
    response: Type.Array(TicketRun),
    isPaged: true,
    errorStatuses: [400],
    summary: 'The runs of the tickets that the same query lists: of each the unfinished one, or the newest.',
  },
  summarizeTickets: {
    ...runs,
    method: 'GET',
    path: '/api/tickets/summary',
    query: TicketSummaryQuery,
    response: TicketSummary,
    errorStatuses: [400],
    summary: 'How many eligible tickets a query finds, what their runs do, and what all tickets differ in.',
  },
  createTicket: {
    ...runs,
    method: 'POST',
    path: '/api/tickets',
    body: NewTicketRequest,
    response: NewTicketResponse,
    successStatus: 201,
    errorStatuses: [400, 409],
    summary: 'Creates a ticket in the tracker, and queues its run unless the ticket is to wait.',
  },
  runTicket: {
    ...runs,
    method: 'POST',
    path: '/api/tickets/:id/run',
    params: ById,
    body: RunOptions,
    isBodyOptional: true,
    response: Run,
    errorStatuses: [400, 404, 409],
    summary: 'Queues a run of a ticket by hand, unless it has an active one.',
  },
  listRuns: {
    ...runs,
    method: 'GET',
    path: '/api/runs',
    query: RunListQuery,
    response: Type.Array(Run),
    isPaged: true,
    errorStatuses: [400],
    summary: 'Runs, newest first; all of them unless a limit is given, and then a Link header leads on.',
  },
  summarizeRuns: {
    ...runs,
    method: 'GET',
    path: '/api/runs/summary',
    query: RunSummaryQuery,
    response: RunSummary,
    errorStatuses: [400],
    summary: 'How many runs a query finds, which failures are equal, and by what all runs can be told apart.',
  },
  readRun: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id',
    params: ById,
    response: Run,
    errorStatuses: [404],
    summary: 'One run; asking also refreshes the state of its pull request.',
  },
  readRunEvents: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id/events',
    params: ById,
    query: RunEventsQuery,
    response: Type.Array(RunEvent),
    isPaged: true,
    errorStatuses: [400, 404],
    summary: 'What happened in a run, oldest first.',
  },
  readPlacement: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id/placement',
    params: ById,
    response: Placement,
    errorStatuses: [404],
    summary: 'Why a queued run waits: each worker with the first thing that excludes it.',
  },
  readAttention: {
    ...service,
    method: 'GET',
    path: '/api/attention',
    response: AttentionResponse,
    errorStatuses: [],
    summary:
      'What needs a person: failed runs, limits, logins, reviews, conflicts, absent workers, the tracker.',
  },
  acknowledgeAttention: {
    ...service,
    method: 'POST',
    path: '/api/attention/acknowledge',
    body: AcknowledgeRequest,
    response: AttentionResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Says that a person knows of a loss, so that its item, and those of what is lost, vanish.',
  },
  explainTicket: {
    ...runs,
    method: 'GET',
    path: '/api/tickets/:id/explain',
    params: ById,
    response: ExplainResponse,
    errorStatuses: [404],
    summary: 'What a ticket, or its newest run, waits for: every gate on the way to a worker, with its cure.',
  },
  explainRun: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id/explain',
    params: ById,
    response: ExplainResponse,
    errorStatuses: [404],
    summary: 'What a queued run waits for: every gate on the way to a worker, with its cure.',
  },
  readArtifact: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id/artifacts/:name',
    params: Artifact,
    response: 'bytes',
    errorStatuses: [400, 404],
    summary: "One file of the run's artifact folder.",
  },
  cancelRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/cancel',
    params: ById,
    response: Run,
    errorStatuses: [404],
    summary: 'Stops a run; one that has ended is answered as it is.',
  },
  retryRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/retry',
    params: ById,
    body: RunOptions,
    isBodyOptional: true,
    response: Run,
    errorStatuses: [400, 404, 409],
    summary:
      'Queues an ended run once more, or tries a queued one that a worker gave back; costs and instructions stay.',
  },
  publishRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/publish',
    params: ById,
    body: PublishOptions,
    isBodyOptional: true,
    response: Run,
    errorStatuses: [400, 404, 409],
    summary:
      'Publishes finished work that waits in its sandbox; with `anyway` also work that holds what looks like keys.',
  },
  followUpRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/followup',
    params: ById,
    body: RunOptions,
    isBodyOptional: true,
    response: Run,
    errorStatuses: [400, 404, 409],
    summary:
      "Brings the run's open pull request up to date: rebase, conflicts, review feedback, one comment.",
  },
  readRunPull: {
    ...runs,
    method: 'GET',
    path: '/api/runs/:id/pr',
    params: ById,
    response: RunPullResponse,
    errorStatuses: [400, 404, 409],
    summary: "The run's pull request and its state right now.",
  },
  resumeRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/resume',
    params: ById,
    response: ResumeRunResponse,
    errorStatuses: [400, 404, 409, 410],
    summary: 'Boots the retained sandbox and readies its agent session for the attach socket.',
  },
  releaseRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/release',
    params: ById,
    response: Run,
    errorStatuses: [404, 409],
    summary: 'Stops the compute of a resumed sandbox; its disk stays until retention ends.',
  },
  discardRun: {
    ...runs,
    method: 'POST',
    path: '/api/runs/:id/discard',
    params: ById,
    response: Run,
    errorStatuses: [404, 409],
    summary: "Deletes an ended run's retained sandbox now.",
  },
  attachSocket: {
    ...runs,
    method: 'GET',
    path: '/ws/runs/:id/attach',
    params: ById,
    query: SocketQuery,
    socket: true,
    frames: { from: AttachInput, to: AttachOutput },
    response: 'frames',
    errorStatuses: [],
    summary: "A terminal in the run's resumed agent session; several views may share it.",
  },

  // -- workers
  listWorkers: {
    ...workers,
    method: 'GET',
    path: '/api/workers',
    response: FleetResponse,
    errorStatuses: [],
    summary: 'Every enrolled worker, oldest enrollment first.',
  },
  provisionWorker: {
    ...workers,
    method: 'POST',
    path: '/api/workers/provision',
    body: ProvisionRequest,
    response: ProvisionResponse,
    errorStatuses: [400, 409, 500],
    summary: 'Sets up a Linux machine as a worker over SSH.',
  },
  mintPairingToken: {
    ...workers,
    method: 'POST',
    path: '/api/workers/pairing-tokens',
    response: PairingTokenResponse,
    errorStatuses: [],
    summary: 'A single-use token that enrolls one worker, for machines that SSH cannot reach.',
  },
  listJoinKeys: {
    ...workers,
    method: 'GET',
    path: '/api/workers/join-keys',
    response: JoinKeysResponse,
    errorStatuses: [],
    summary: 'The join keys without their secrets, oldest first, each with the number of its workers.',
  },
  createJoinKey: {
    ...workers,
    method: 'POST',
    path: '/api/workers/join-keys',
    body: JoinKeyRequest,
    response: JoinKeyResponse,
    errorStatuses: [400, 409],
    summary: 'A key that enrolls many workers; only this answer contains it.',
  },
  deleteJoinKey: {
    ...workers,
    method: 'DELETE',
    path: '/api/workers/join-keys/:id',
    params: ById,
    query: JoinKeyDeletionQuery,
    response: DoneResponse,
    errorStatuses: [404],
    summary: 'Lets no more workers join with a key, and revokes those that did when asked.',
  },
  renameWorker: {
    ...workers,
    method: 'POST',
    path: '/api/workers/:id/rename',
    params: ById,
    body: RenameRequest,
    response: FleetResponse,
    errorStatuses: [400, 404],
    summary: 'Gives a worker another display name.',
  },
  drainWorker: {
    ...workers,
    method: 'POST',
    path: '/api/workers/:id/drain',
    params: ById,
    response: FleetResponse,
    errorStatuses: [404],
    summary: 'Lets a worker finish what it runs and gives it nothing new.',
  },
  enableWorker: {
    ...workers,
    method: 'POST',
    path: '/api/workers/:id/enable',
    params: ById,
    response: FleetResponse,
    errorStatuses: [404],
    summary: 'Puts a draining worker back to work.',
  },
  revokeWorker: {
    ...workers,
    method: 'DELETE',
    path: '/api/workers/:id',
    params: ById,
    response: FleetResponse,
    errorStatuses: [400, 404],
    summary: "Ends a worker's enrollment and disconnects it.",
  },
  readDemand: {
    ...supervisor,
    access: 'worker-or-join-key',
    method: 'GET',
    path: '/api/worker/demand',
    query: DemandQuery,
    response: FleetDemandResponse,
    errorStatuses: [400, 403],
    summary:
      'How much work waits and runs, for a supervisor of one worker or of a group that joins with a key.',
  },
  changeWorkerState: {
    ...supervisor,
    method: 'POST',
    path: '/api/worker/state',
    query: WorkerStateQuery,
    response: FleetDemandResponse,
    errorStatuses: [400, 403],
    summary: 'Drains or enables the calling worker; the answer already counts with it.',
  },
  workerSocket: {
    ...supervisor,
    access: 'first-frame',
    method: 'GET',
    path: '/ws/worker',
    socket: true,
    frames: { from: WorkerFrame, to: HostFrame },
    response: 'frames',
    errorStatuses: [],
    summary:
      'The worker channel; the request may carry proof, the first frame must register within ten seconds.',
  },

  // -- connect
  pollCodehost: {
    ...connect,
    method: 'POST',
    path: '/api/connect/codehost/poll',
    response: ConnectPollResponse,
    errorStatuses: [],
    summary: 'How far the code host device flow is.',
  },
  readStorage: {
    ...connect,
    method: 'GET',
    path: '/api/connect/storage',
    response: StorageStatus,
    errorStatuses: [],
    summary: 'Whether artifacts can be uploaded to object storage, probed now.',
  },
  connectStorage: {
    ...connect,
    method: 'POST',
    path: '/api/connect/storage',
    response: StorageConnectResponse,
    errorStatuses: [],
    summary: "Starts the bucket command's own login on the host, unless it is logged in.",
  },
  trackerCallback: {
    ...connect,
    access: 'anyone',
    method: 'GET',
    path: '/api/connect/tracker/callback',
    query: TrackerCallbackQuery,
    response: 'html',
    errorStatuses: [400],
    summary: "Where the tracker's authorize page sends the browser back to.",
  },
  pasteTrackerAddress: {
    ...connect,
    method: 'POST',
    path: '/api/connect/tracker/paste',
    body: PasteRequest,
    response: ConnectPollResponse,
    errorStatuses: [400],
    summary: 'For a browser on another machine: the address that it could not open after the consent.',
  },
  connectProvider: {
    ...connect,
    method: 'POST',
    path: '/api/connect/:provider',
    params: ByProvider,
    response: ConnectResponse,
    errorStatuses: [400],
    summary: 'Begins to connect an account; the answer says what the person does next.',
  },

  // -- code host, pull requests, tracker
  listCodehostRepos: {
    ...pulls,
    method: 'GET',
    path: '/api/codehost/repos',
    response: Type.Array(CodehostRepo),
    errorStatuses: [400, 404, 409],
    summary: 'Repositories the connected account can reach, most recently pushed first.',
  },
  listPulls: {
    ...pulls,
    method: 'GET',
    path: '/api/pulls',
    response: PullListResponse,
    errorStatuses: [400],
    summary: 'Pull requests of every configured repository; one that cannot be read is named beside them.',
  },
  readPull: {
    ...pulls,
    method: 'GET',
    path: '/api/pulls/:repo/:number',
    params: Pull,
    response: PullDetail,
    errorStatuses: [400, 404, 409],
    summary: 'One pull request with its conversation, files, commits and checks.',
  },
  mergePull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/merge',
    params: Pull,
    body: MergeRequest,
    response: MergeResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Merges a pull request in the given way.',
  },
  closePull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/close',
    params: Pull,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Closes a pull request without merging it.',
  },
  reopenPull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/reopen',
    params: Pull,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Opens a closed pull request again; one that was a draft is a draft again.',
  },
  readyPull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/ready',
    params: Pull,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Takes a pull request out of draft.',
  },
  commentPull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/comment',
    params: Pull,
    body: CommentRequest,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: "Comments on a pull request's conversation.",
  },
  reviewPull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/review',
    params: Pull,
    body: ReviewRequest,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Submits a review: approve, request changes or comment.',
  },
  replyPull: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/reply',
    params: Pull,
    body: ReplyRequest,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Answers a review comment in its thread.',
  },
  resolvePullThread: {
    ...pulls,
    method: 'POST',
    path: '/api/pulls/:repo/:number/resolve-thread',
    params: Pull,
    body: ResolveThreadRequest,
    response: DoneResponse,
    errorStatuses: [400, 404, 409],
    summary: 'Marks a review thread resolved, or open again.',
  },
  readTrackerStatus: {
    ...pulls,
    method: 'GET',
    path: '/api/tracker/status',
    response: TrackerStatus,
    errorStatuses: [],
    summary:
      "The tracker's connection, when it was and will be polled, and how many tickets the last poll found.",
  },
  listTrackerProjects: {
    ...pulls,
    method: 'GET',
    path: '/api/tracker/projects',
    response: Type.Array(TrackerProject),
    errorStatuses: [400],
    summary: "The tracker's projects, for choosing which tickets are eligible.",
  },

  // -- memories
  listMemories: {
    ...memories,
    method: 'GET',
    path: '/api/memories',
    response: MemoriesResponse,
    errorStatuses: [],
    summary: 'What runs have recorded about each repository.',
  },
  keepMemory: {
    ...memories,
    method: 'POST',
    path: '/api/memories/:repo/keep',
    params: ByRemote,
    body: MemoryRequest,
    response: MemoriesResponse,
    errorStatuses: [400, 404, 500],
    summary: 'Keeps a new fact, so that later runs are told of it.',
  },
  forgetMemory: {
    ...memories,
    method: 'POST',
    path: '/api/memories/:repo/forget',
    params: ByRemote,
    body: MemoryRequest,
    response: MemoriesResponse,
    errorStatuses: [400, 404, 500],
    summary: 'Drops one recorded fact.',
  },
  clearMemories: {
    ...memories,
    method: 'POST',
    path: '/api/memories/:repo/clear',
    params: ByRemote,
    response: MemoriesResponse,
    errorStatuses: [404, 500],
    summary: 'Drops everything recorded about a repository.',
  },
} as const satisfies Record<string, Route>

/** The routes of the public OAuth helper, which runs elsewhere and shares nothing with the routes above. */
export const helperRoutes = {
  index: {
    ...helper,
    method: 'GET',
    path: '/',
    response: HelperIndex,
    errorStatuses: [],
    summary: 'What this service is and which routes it has.',
  },
  health: {
    ...helper,
    method: 'GET',
    path: '/health',
    response: HelperHealth,
    errorStatuses: [],
    summary: 'Whether the helper is up.',
  },
  startDevice: {
    ...helper,
    method: 'POST',
    path: '/oauth/codehost/device/code',
    response: DeviceCode,
    errorStatuses: [400, 429, 502],
    summary: 'Starts a device authorization at the code host.',
  },
  pollDevice: {
    ...helper,
    method: 'POST',
    path: '/oauth/codehost/device/token',
    body: DeviceTokenRequest,
    response: DeviceToken,
    errorStatuses: [400, 429, 502],
    summary: "Asks whether the person has confirmed the device; the code host's own fields are passed on.",
  },
  authorizeTracker: {
    ...helper,
    method: 'GET',
    path: '/oauth/tracker/authorize',
    query: TrackerAuthorizeQuery,
    response: 'redirect',
    errorStatuses: [400],
    summary: "Sends the browser to the tracker's authorize page, which leads back to this machine.",
  },
  exchangeTracker: {
    ...helper,
    method: 'POST',
    path: '/oauth/tracker/token',
    body: TrackerTokenRequest,
    response: TrackerTokens,
    errorStatuses: [400, 401, 429, 502],
    summary: 'Exchanges the code from the callback for tokens.',
  },
  refreshTracker: {
    ...helper,
    method: 'POST',
    path: '/oauth/tracker/refresh',
    body: TrackerRefreshRequest,
    response: TrackerTokens,
    errorStatuses: [400, 401, 429, 502],
    summary: 'Exchanges a refresh token for a fresh access token.',
  },
} as const satisfies Record<string, Route>

// ---- types of a row ----------------------------------------------------------------------------------------------

export type Routes = typeof routes
export type RouteName = keyof Routes
export type HelperRouteName = keyof typeof helperRoutes

type RouteSchema<R, K extends string> = R extends { readonly [key in K]: infer S extends TSchema }
  ? Static<S>
  : undefined
type ResponseIn<A> = A extends PlainResponse ? A : A extends TSchema ? Static<A> : never

/** `undefined` where the route takes no body, or may be called without one. */
export type BodyOf<N extends RouteName> =
  | RouteSchema<Routes[N], 'body'>
  | (Routes[N] extends { readonly isBodyOptional: true } ? undefined : never)
export type QueryOf<N extends RouteName> = RouteSchema<Routes[N], 'query'>
export type ParamsOf<N extends RouteName> = RouteSchema<Routes[N], 'params'>
/** The word itself (`'bytes'`, `'html'` …) where the response is not JSON. */
export type ResponseOf<N extends RouteName> = ResponseIn<Routes[N]['response']>
