/**
 * The frames between worker and host, protocol version 1.
 *
 * Each `type` has a closed record: what is written matches it exactly (`checkWorkerFrame`, `checkHostFrame`). A reader
 * is open (`readWorkerFrame`, `readHostFrame`): it removes unknown keys, names unknown types and accepts longer logs, so
 * that a peer of another version stays connected. A frame is checked by its own schema only, so an error names the right
 * fields. What is added here carries the mark `added`, because peers of the first form refuse it (`first-form.ts`).
 */
import Type, { type Static, type TSchema } from 'typebox'
import { AGENT_CREDENTIAL_KINDS } from './agents/agent-definition.ts'
import { ModelUse } from './agents/model-use.ts'
import { AgentEffort, AgentProviderName } from './config.ts'
import { Columns, ExitCode, Rows, TerminalData } from './dashboard.ts'
import { CODE_HOST_DRIVERS } from './drivers.ts'
import { FoundKeys } from './found-key.ts'
import {
  ARTIFACT_NAME_BYTES_MAX,
  ARTIFACT_PART_BYTES_MAX,
  CONFIG_LIST_MAX,
  CREDENTIAL_CHARS_MAX,
  EXPIRED_SANDBOXES_MAX,
  FOLLOW_UP_ITEMS_MAX,
  ID_CHARS_MAX,
  INSPECT_TEXT_CHARS_MAX,
  INSTRUCTIONS_CHARS_MAX,
  LOGIN_CHARS_MAX,
  MEMORY_CHARS_MAX,
  PATH_CHARS_MAX,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_OLDEST,
  RUN_MEMORIES_FACT_CHARS_MAX,
  RUN_MEMORIES_FACTS_MAX,
  SCRIPT_CHARS_MAX,
  SHARED_ACTORS_MAX,
  UNHEARD_NAMED_MAX,
  USAGE_ENTRIES_MAX,
  WORKER_FRAME_KEYS_MAX,
  WORKER_LEASES_MAX,
} from './limits.ts'
import { type Checker, createChecker, createOpenChecker, parseJson, prefixError } from './parse.ts'
import { PullComment, PullReview, PullThread } from './pulls.ts'
import { PullState, ReceivedEvent, ReportedEvent, Run, RunCosts, RunResult } from './run.ts'
import { ReportedSandbox } from './run-sandbox.ts'
import { problemAt } from './schema-errors.ts'
import {
  added,
  addedKey,
  boundedList,
  Count,
  ForeignId,
  Id,
  Instant,
  Link,
  Milliseconds,
  Name,
  nonEmptyText,
  patternText,
  record,
  Seq,
  stringEnum,
  Text,
  text,
  Url,
  Usd,
} from './schema-helpers.ts'
import { PackedUsage, UsageEntry, unpackUsage } from './usage.ts'
import { WorkerCapabilities, WorkerState } from './worker.ts'

// ---- leases ----------------------------------------------------------------------------------------------------

/** A lease as its worker knows it. `lastSeq`: the highest frame number so far, 0 before the first frame. */
export const RunLease = record('RunLease', { id: Id, runId: Id, expiresAt: Instant, lastSeq: Count })
export type RunLease = Static<typeof RunLease>

/** `expiresAt` is for people; the worker measures `remainingMs` on its own clock. */
export const GrantedLease = record('GrantedLease', {
  id: Id,
  runId: Id,
  expiresAt: Instant,
  remainingMs: Milliseconds,
})
export type GrantedLease = Static<typeof GrantedLease>

/** `seq`: all frames up to and including this number are on disk. */
export const AcknowledgedLease = record('AcknowledgedLease', {
  leaseId: Id,
  seq: Count,
  expiresAt: Instant,
  remainingMs: Milliseconds,
})
export type AcknowledgedLease = Static<typeof AcknowledgedLease>

/** An actor of a worker: names and states only. */
export const SharedActor = record('SharedActor', {
  kind: text(INSPECT_TEXT_CHARS_MAX),
  key: text(INSPECT_TEXT_CHARS_MAX),
  state: text(INSPECT_TEXT_CHARS_MAX),
})
export type SharedActor = Static<typeof SharedActor>

/** A retained sandbox, by its run, and until when the worker retains it. */
export const ExpiredSandbox = record('ExpiredSandbox', { runId: Id, retainedUntil: Instant })
export type ExpiredSandbox = Static<typeof ExpiredSandbox>

const Leases = boundedList(RunLease, WORKER_LEASES_MAX)

// ---- a job -----------------------------------------------------------------------------------------------------

const Credential = (max: number) => Type.String({ minLength: 1, maxLength: max, 'x-secret': true })

/** The secrets of one run, which arrive with the job and are deleted with the sandbox. */
export const RunCredentials = record('RunCredentials', {
  codehost: Type.Optional(Credential(CREDENTIAL_CHARS_MAX)),
  agent: Type.Optional(
    record('AgentCredential', {
      kind: stringEnum(AGENT_CREDENTIAL_KINDS),
      value: Credential(LOGIN_CHARS_MAX),
    }),
  ),
  /** The agent gets its credential itself. Absent: the worker adds it outside the sandbox. */
  keyInSandbox: addedKey(Type.Boolean()),
  /** Absent: no tools of the vendor, the usual models, listed prices. */
  modelUse: addedKey(ModelUse),
  tracker: Type.Optional(Credential(CREDENTIAL_CHARS_MAX)),
})
export type RunCredentials = Static<typeof RunCredentials>

/** The repository's own commands, which run inside the sandbox before and after the agent. */
export const RepoHooks = record('RepoHooks', {
  beforeAgent: Type.Optional(text(SCRIPT_CHARS_MAX)),
  afterAgent: Type.Optional(text(SCRIPT_CHARS_MAX)),
})
export type RepoHooks = Static<typeof RepoHooks>

export const JobRepo = record('JobRepo', {
  key: nonEmptyText(ID_CHARS_MAX),
  remote: Name,
  defaultBranch: Name,
  cloneUrl: Type.Optional(Url),
  setup: Type.Optional(text(SCRIPT_CHARS_MAX)),
  hooks: Type.Optional(RepoHooks),
  allowWorkflows: addedKey(
    Type.Boolean({ description: 'Changes of CI definitions are pushed; otherwise they are held back.' }),
  ),
})
export type JobRepo = Static<typeof JobRepo>

/** The code host for the pull request, when it is not the public one. */
export const JobCodehost = record('JobCodehost', {
  driver: stringEnum(CODE_HOST_DRIVERS),
  apiUrl: Type.Optional(Url),
  path: Type.Optional(text(PATH_CHARS_MAX)),
  draftPulls: Type.Optional(Type.Boolean()),
  closesIssue: addedKey(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The issue of the repository that the pull request closes.',
    }),
  ),
})
export type JobCodehost = Static<typeof JobCodehost>

export const JobAgent = record('JobAgent', {
  provider: AgentProviderName,
  model: Type.Optional(Name),
  effort: Type.Optional(AgentEffort),
  command: Type.Optional(nonEmptyText(SCRIPT_CHARS_MAX, "In place of the provider's own command line.")),
  instructions: text(INSTRUCTIONS_CHARS_MAX),
  memories: boundedList(nonEmptyText(MEMORY_CHARS_MAX), FOLLOW_UP_ITEMS_MAX),
})
export type JobAgent = Static<typeof JobAgent>

/** The restrictions of the sandbox, from the host's configuration. */
export const JobSandbox = record('JobSandbox', {
  network: stringEnum(['open', 'allowlist', 'none']),
  allowedHosts: boundedList(Name, CONFIG_LIST_MAX),
  maxProcesses: Count,
  memoryMib: Type.Optional(Count),
  diskQuotaGib: Type.Optional(Type.Number({ minimum: 0 })),
  exposeCodehostToken: Type.Boolean(),
})
export type JobSandbox = Static<typeof JobSandbox>

/** The pull request that a follow-up works on, with its discussion. */
export const JobPull = record('JobPull', {
  number: Type.Integer({ minimum: 1 }),
  url: Link,
  headBranch: Name,
  headRemote: Name,
  baseBranch: Name,
  threads: boundedList(PullThread, FOLLOW_UP_ITEMS_MAX),
  reviews: boundedList(PullReview, FOLLOW_UP_ITEMS_MAX),
  comments: boundedList(PullComment, FOLLOW_UP_ITEMS_MAX),
  unheard: addedKey(boundedList(Name, UNHEARD_NAMED_MAX)),
})
export type JobPull = Static<typeof JobPull>

/**
 * The follow-up's id and number. The id stays however often the follow-up is started, because its comment contains
 * the id.
 */
export const JobFollowUp = record('JobFollowUp', { id: Id, number: Type.Integer({ minimum: 1 }) })
export type JobFollowUp = Static<typeof JobFollowUp>

export const JobLimits = record('JobLimits', {
  maxMinutes: Type.Optional(Type.Number({ minimum: 0 })),
  maxCostUsd: Type.Optional(Usd),
  maxTurns: Type.Optional(Count),
  /** The bytes of events, and of artifacts, that this execution may report. */
  logBytes: addedKey(Count),
  artifactBytes: addedKey(Count),
  /** How long a worker tries to reach the repository before it gives the run back; absent: the host would fail the run. */
  unreachableSeconds: addedKey(Count),
})
export type JobLimits = Static<typeof JobLimits>

export const Job = record('Job', {
  /** `publish`: only what an earlier execution has finished and could not publish; only for workers that say `publish`. */
  kind: stringEnum(['run', 'follow-up', 'publish']),
  run: Run,
  repo: JobRepo,
  branch: Name,
  base: Name,
  /** Absent in a job that only publishes. */
  agent: Type.Optional(JobAgent),
  credentials: RunCredentials,
  codehost: Type.Optional(JobCodehost),
  sandbox: Type.Optional(JobSandbox),
  pull: Type.Optional(JobPull),
  followUp: Type.Optional(JobFollowUp),
  /**
   * The agent's session of an earlier attempt that was interrupted, or whose finished work is to be changed. A worker that
   * still holds its sandbox lets the agent go on there. Only for workers whose capabilities say `continuesSessions`.
   */
  continueSession: addedKey(ForeignId),
  /** A person says that work is published which holds keys. Only for workers whose capabilities say `holdsKeys`. */
  publishAnyway: addedKey(Type.Literal(true)),
  /** The digest of the keys that this person was shown. */
  shownKeys: addedKey(Name),
  limits: JobLimits,
  retentionHours: Type.Number({ minimum: 0 }),
})
export type Job = Static<typeof Job>

/** A job with an agent: every job that does not only publish. */
export type AgentJob = Omit<Job, 'agent'> & { readonly agent: JobAgent }
export const hasAgent = (job: Job): job is AgentJob => job.agent !== undefined

// ---- frames of a worker ------------------------------------------------------------------------------------------

/** How a worker authenticates in its first frame. */
export const WorkerAuth = Type.Union(
  [
    record('PairingAuth', { kind: Type.Literal('pairing'), token: Credential(CREDENTIAL_CHARS_MAX) }),
    record('CredentialAuth', {
      kind: Type.Literal('credential'),
      workerId: ForeignId,
      secret: Credential(CREDENTIAL_CHARS_MAX),
    }),
    added(record('JoinAuth', { kind: Type.Literal('join'), key: Credential(CREDENTIAL_CHARS_MAX) })),
  ],
  { title: 'WorkerAuth' },
)
export type WorkerAuth = Static<typeof WorkerAuth>

/** A status only moves forward, and a patch cannot end a run. */
export const RunPatch = record('RunPatch', {
  status: Type.Optional(stringEnum(['preparing', 'running', 'finalizing'])),
  agentSessionId: Type.Optional(ForeignId),
  prUrl: Type.Optional(Link),
  prState: Type.Optional(PullState),
  sandbox: Type.Optional(ReportedSandbox),
  costs: Type.Optional(RunCosts),
})
export type RunPatch = Static<typeof RunPatch>

/** The kinds of failures. A newer worker may name other kinds, so the field is any word. */
export const FAILURE_KINDS = [
  'network',
  'agent',
  'checkout',
  'credentials',
  'configuration',
  'verification',
  'limit',
  'publish',
] as const
export type FailureKind = (typeof FAILURE_KINDS)[number]

export const RunOutcome = record('RunOutcome', {
  status: stringEnum(['completed', 'failed', 'cancelled']),
  failure: addedKey(Type.Unsafe<FailureKind>(Name)),
  /** The work is kept from being published until a person says otherwise, because of what these places hold. */
  keys: addedKey(FoundKeys),
  /** Says no more than whether two executions found the same keys. */
  keysDigest: addedKey(Name),
  /** False: the worker ended before the agent began, so the host queues the run again at once. */
  begun: addedKey(Type.Boolean()),
  result: Type.Optional(RunResult),
  error: Type.Optional(Text),
  costs: RunCosts,
  agentSessionId: Type.Optional(ForeignId),
  prUrl: Type.Optional(Link),
  prState: Type.Optional(PullState),
  sandbox: Type.Optional(ReportedSandbox),
})
export type RunOutcome = Static<typeof RunOutcome>

/**
 * Part of a file path. Agents name a project's folder after its path (`-home-me-repo`), hence the leading dash; a
 * `.json` suffix is refused because one session's folder would have the name of another session's file.
 */
const PathPart = patternText(
  '^(?!.*\\.json$)[A-Za-z0-9_-][A-Za-z0-9._-]*$',
  'a name of letters, digits, ., - and _, with no . in front and no .json behind',
  200,
)

const snapshotPath = { projectKey: PathPart, sessionId: PathPart, subagentId: Type.Optional(PathPart) }
const Sha256 = patternText('^[0-9a-f]{64}$', 'a SHA-256 in lower-case hex', 64)

/** `sha256`: the hash of `usageText(entries)`, the archived form. */
export const UsageSnapshot = record('UsageSnapshot', {
  ...snapshotPath,
  entries: boundedList(UsageEntry, USAGE_ENTRIES_MAX),
  sha256: Type.Optional(Sha256),
})
export type UsageSnapshot = Static<typeof UsageSnapshot>

/** The wire form, with either `entries` or, when those do not fit into a frame, `packed`. */
export const SentUsageSnapshot = record('SentUsageSnapshot', {
  ...snapshotPath,
  entries: Type.Optional(boundedList(UsageEntry, USAGE_ENTRIES_MAX)),
  packed: Type.Optional(PackedUsage),
  sha256: Type.Optional(Sha256),
})
export type SentUsageSnapshot = Static<typeof SentUsageSnapshot>

/** A file name that every file system accepts, in well-formed text. */
const ArtifactName = patternText(
  '^(?!\\.{1,2}$)[^\\p{Cc}\\p{Cs}/\\\\]+$',
  'the name of a file, without slashes and control characters, and not . or ..',
  ARTIFACT_NAME_BYTES_MAX,
)
/** A separate check ensures that the length is a multiple of four, because a pattern would be slower. */
const Base64 = patternText('^[A-Za-z0-9+/]*={0,2}$', 'base64', Math.ceil(ARTIFACT_PART_BYTES_MAX / 3) * 4)

const numberedFields = { leaseId: Id, seq: Seq }

/** Ignores all other fields, so that a worker of another version is told about its version and not about a field. */
export const RegisterHead = Type.Object({
  type: Type.Literal('register'),
  protocolVersion: Type.Number(),
  oldestProtocolVersion: Type.Optional(Type.Unknown()),
  capabilities: Type.Optional(Type.Unknown()),
})

/** Frames from worker to host, by type. */
export const workerFrames = {
  register: record('RegisterFrame', {
    type: Type.Literal('register'),
    protocolVersion: Type.Number(),
    /** Absent: the worker speaks `protocolVersion` only. */
    oldestProtocolVersion: addedKey(Type.Number()),
    auth: WorkerAuth,
    name: Text,
    capabilities: WorkerCapabilities,
    activeLeases: Leases,
  }),
  heartbeat: record('HeartbeatFrame', {
    type: Type.Literal('heartbeat'),
    leases: Leases,
    attachSessions: Count,
    sentAt: Milliseconds,
    /** The worker's wall clock; `sentAt` is on its monotonic one. */
    clock: addedKey(Milliseconds),
    capabilities: Type.Optional(WorkerCapabilities),
  }),
  'dispatch-accepted': record('DispatchAcceptedFrame', {
    type: Type.Literal('dispatch-accepted'),
    leaseId: Id,
  }),
  'dispatch-rejected': record('DispatchRejectedFrame', {
    type: Type.Literal('dispatch-rejected'),
    leaseId: Id,
    reason: Text,
  }),
  'run-patch': record('RunPatchFrame', {
    type: Type.Literal('run-patch'),
    ...numberedFields,
    patch: RunPatch,
  }),
  'run-event': record('RunEventFrame', {
    type: Type.Literal('run-event'),
    ...numberedFields,
    event: ReportedEvent,
  }),
  'run-artifact': record('RunArtifactFrame', {
    type: Type.Literal('run-artifact'),
    ...numberedFields,
    name: ArtifactName,
    part: Count,
    final: Type.Boolean(),
    data: Base64,
  }),
  'run-memories': record('RunMemoriesFrame', {
    type: Type.Literal('run-memories'),
    ...numberedFields,
    repo: nonEmptyText(ID_CHARS_MAX, 'The repository as owner/name.'),
    facts: boundedList(text(RUN_MEMORIES_FACT_CHARS_MAX), RUN_MEMORIES_FACTS_MAX),
  }),
  'run-usage-snapshot': record('RunUsageSnapshotFrame', {
    type: Type.Literal('run-usage-snapshot'),
    leaseId: Type.Optional(Id),
    seq: Type.Optional(Seq),
    /** The lease of an execution whose usage arrives after the lease's end, outside its numbered frames. */
    endedLeaseId: addedKey(Id),
    // A checked frame is always unpacked; the packed form exists only between `encodeFrame` and `checkWorkerFrame`.
    snapshot: Type.Unsafe<UsageSnapshot>(SentUsageSnapshot),
  }),
  'run-complete': record('RunCompleteFrame', {
    type: Type.Literal('run-complete'),
    ...numberedFields,
    outcome: RunOutcome,
  }),
  'lease-gap': record('LeaseGapFrame', {
    type: Type.Literal('lease-gap'),
    leaseId: Id,
    from: Seq,
    to: Seq,
    /** The worker finds these frames damaged on its disk; absent: its outbox was full and dropped them. */
    damaged: addedKey(Type.Boolean()),
  }),
  /** All costs of an execution whose lease this worker does not claim any more. */
  'lease-costs': added(
    record('LeaseCostsFrame', {
      type: Type.Literal('lease-costs'),
      leaseId: Id,
      costs: RunCosts,
    }),
  ),
  /**
   * Retained sandboxes whose time is over and that the worker must not delete by itself. The host answers with a
   * `discard` for each that may go.
   */
  'expired-sandboxes': added(
    record('ExpiredSandboxesFrame', {
      type: Type.Literal('expired-sandboxes'),
      sandboxes: boundedList(ExpiredSandbox, EXPIRED_SANDBOXES_MAX),
    }),
  ),
  'sandbox-ready': record('SandboxReadyFrame', {
    type: Type.Literal('sandbox-ready'),
    requestId: Id,
    /** The agent's session under which its usage is exported; absent: the one that the host knows. */
    sessionId: addedKey(ForeignId),
  }),
  'sandbox-failed': record('SandboxFailedFrame', {
    type: Type.Literal('sandbox-failed'),
    requestId: Id,
    message: Text,
  }),
  'attach-data': record('AttachDataFrame', {
    type: Type.Literal('attach-data'),
    sessionId: Id,
    data: TerminalData,
  }),
  'attach-exit': record('AttachExitFrame', {
    type: Type.Literal('attach-exit'),
    sessionId: Id,
    code: ExitCode,
  }),
  'attach-error': record('AttachErrorFrame', {
    type: Type.Literal('attach-error'),
    sessionId: Id,
    message: Text,
  }),
  /**
   * Sent only as the answer to `attach-ask`, because older hosts do not know it. `inputs`: number of received
   * `attach-input` frames of this view.
   */
  'attach-taken': record('AttachTakenFrame', {
    type: Type.Literal('attach-taken'),
    sessionId: Id,
    inputs: Count,
  }),
  /** Answers `watch-actors`, and follows with each change: the actors of a worker that shares them. */
  'actor-states': added(
    record('ActorStatesFrame', {
      type: Type.Literal('actor-states'),
      changed: boundedList(SharedActor, SHARED_ACTORS_MAX),
      gone: boundedList(text(INSPECT_TEXT_CHARS_MAX), SHARED_ACTORS_MAX),
    }),
  ),
} as const

/** The same frames as the host reads them: some limits of what is written do not limit what is read. */
const receivedFrames = {
  ...workerFrames,
  'run-event': record('ReceivedRunEventFrame', {
    type: Type.Literal('run-event'),
    ...numberedFields,
    event: ReceivedEvent,
  }),
} as const

// ---- frames of the host ------------------------------------------------------------------------------------------

export const REJECTION_CODES = [
  'invalid-token',
  'expired-token',
  'unauthorized',
  'protocol',
  'malformed',
] as const
export const RejectionCode = stringEnum(REJECTION_CODES)
export type RejectionCode = Static<typeof RejectionCode>

/** Frames from host to worker, by type. */
export const hostFrames = {
  registered: record('RegisteredFrame', {
    type: Type.Literal('registered'),
    protocolVersion: Type.Number(),
    heartbeatIntervalMs: Milliseconds,
    hostVersion: Name,
    workerId: Id,
    name: Name,
    state: WorkerState,
    credential: Type.Optional(Credential(CREDENTIAL_CHARS_MAX)),
    /** The host's installation. The worker stores it beside its credential. */
    installation: addedKey(Id),
  }),
  rejected: record('RejectedFrame', {
    type: Type.Literal('rejected'),
    code: RejectionCode,
    reason: Text,
    /** Present with `unauthorized`: the installation that does not know the worker. */
    installation: addedKey(Id),
  }),
  'heartbeat-ack': record('HeartbeatAckFrame', {
    type: Type.Literal('heartbeat-ack'),
    state: WorkerState,
    echo: Milliseconds,
    /** The host's wall clock; absent: the host is of an earlier version. */
    clock: addedKey(Milliseconds),
    /** The host's clock counts as wrong, so nothing may be deleted by it. */
    clockDoubted: addedKey(Type.Boolean()),
  }),
  dispatch: record('DispatchFrame', { type: Type.Literal('dispatch'), lease: GrantedLease, job: Job }),
  'lease-ack': record('LeaseAckFrame', {
    type: Type.Literal('lease-ack'),
    leases: boundedList(AcknowledgedLease, WORKER_LEASES_MAX),
    echo: Type.Optional(Milliseconds),
  }),
  'run-complete-ack': record('RunCompleteAckFrame', { type: Type.Literal('run-complete-ack'), leaseId: Id }),
  /** The costs of the lease are on disk, or belong to no run any more. */
  'lease-costs-ack': added(
    record('LeaseCostsAckFrame', { type: Type.Literal('lease-costs-ack'), leaseId: Id }),
  ),
  'lease-lost': record('LeaseLostFrame', { type: Type.Literal('lease-lost'), leaseId: Id, reason: Text }),
  cancel: record('CancelFrame', { type: Type.Literal('cancel'), leaseId: Id, reason: Text }),
  discard: record('DiscardFrame', { type: Type.Literal('discard'), runId: Id }),
  'worker-state': record('WorkerStateFrame', { type: Type.Literal('worker-state'), state: WorkerState }),
  revoked: record('RevokedFrame', { type: Type.Literal('revoked'), reason: Text }),
  'sandbox-boot': record('SandboxBootFrame', {
    type: Type.Literal('sandbox-boot'),
    requestId: Id,
    runId: Id,
    credentials: RunCredentials,
  }),
  'sandbox-release': record('SandboxReleaseFrame', { type: Type.Literal('sandbox-release'), runId: Id }),
  'attach-open': record('AttachOpenFrame', {
    type: Type.Literal('attach-open'),
    sessionId: Id,
    runId: Id,
    cols: Columns,
    rows: Rows,
  }),
  'attach-input': record('AttachInputFrame', {
    type: Type.Literal('attach-input'),
    sessionId: Id,
    data: TerminalData,
  }),
  'attach-resize': record('AttachResizeFrame', {
    type: Type.Literal('attach-resize'),
    sessionId: Id,
    cols: Columns,
    rows: Rows,
  }),
  'attach-close': record('AttachCloseFrame', { type: Type.Literal('attach-close'), sessionId: Id }),
  /**
   * Asks how much input of this view has arrived, on this connection and earlier ones. Sent before the view is opened
   * again, so the answer arrives before the screen, or never.
   */
  'attach-ask': record('AttachAskFrame', { type: Type.Literal('attach-ask'), sessionId: Id }),
  /** Asks for the states of the worker's actors, or ends that. Most workers do not answer. */
  'watch-actors': added(
    record('WatchActorsFrame', { type: Type.Literal('watch-actors'), on: Type.Boolean() }),
  ),
} as const

// ---- all frames --------------------------------------------------------------------------------------------------

type FrameOf<Table extends Record<string, TSchema>> = { [T in keyof Table]: Static<Table[T]> }[keyof Table]

export type WorkerFrame = FrameOf<typeof workerFrames>
export type WorkerFrameType = WorkerFrame['type']
export type WorkerFrameOf<T extends WorkerFrameType> = Extract<WorkerFrame, { type: T }>

export type HostFrame = FrameOf<typeof hostFrames>
export type HostFrameType = HostFrame['type']
export type HostFrameOf<T extends HostFrameType> = Extract<HostFrame, { type: T }>

export const WorkerFrame = Type.Unsafe<WorkerFrame>(
  Type.Union(Object.values<TSchema>(workerFrames), { title: 'WorkerFrame' }),
)
export const HostFrame = Type.Unsafe<HostFrame>(
  Type.Union(Object.values<TSchema>(hostFrames), { title: 'HostFrame' }),
)

/** The refusal of an unknown type is told apart, because a reader ignores such a frame. */
export type FrameCheck<F> =
  | { readonly ok: true; readonly value: F }
  | { readonly ok: false; readonly error: string; readonly isUnknownType: boolean }

const malformed = (error: string): FrameCheck<never> => ({ ok: false, error, isUnknownType: false })

/** Checks a frame that is about to be written: unknown keys and unknown types are faults. */
export const checkWorkerFrame: Checker<WorkerFrame> = withWorkerRules(
  checkByType(workerFrames, createChecker),
)
export const checkHostFrame: Checker<HostFrame> = checkByType(hostFrames, createChecker)
export const checkRegisterHead = createChecker(RegisterHead)

const readWorkerShape = withWorkerRules(checkByType(receivedFrames, createOpenChecker))
const readHostShape = checkByType(hostFrames, createOpenChecker)

/** Builds a checker that applies only the schema of the frame's type. */
function checkByType<Table extends Record<string, TSchema>>(
  table: Table,
  checkerOf: (schema: TSchema) => Checker<unknown>,
): (frame: unknown) => FrameCheck<FrameOf<Table>> {
  const checkers = new Map(Object.entries(table).map(([type, schema]) => [type, checkerOf(schema)]))
  const open = createChecker(Type.Object({ type: stringEnum([...checkers.keys()]) }))
  const hasType = createChecker(Type.Object({ type: Type.String() }))
  return (frame) => {
    const opened = open(frame)
    if (!opened.ok) return { ...opened, isUnknownType: hasType(frame).ok }
    const checked = checkers.get(opened.value.type)?.(frame) ?? opened
    // The map was built from this table, so its checkers return frames of the table.
    return checked.ok ? { ok: true, value: checked.value as FrameOf<Table> } : malformed(checked.error)
  }
}

function withWorkerRules(
  checkShape: (frame: unknown) => FrameCheck<WorkerFrame>,
): (frame: unknown) => FrameCheck<WorkerFrame> {
  return (frame) => {
    const checked = checkShape(frame)
    if (!checked.ok) return checked
    const error = frameProblem(checked.value)
    if (error !== undefined) return malformed(error)
    return checked.value.type === 'run-usage-snapshot' ? unpacked(checked.value) : checked
  }
}

// ---- from text -----------------------------------------------------------------------------------------------------

export type RegisterRead =
  | { readonly is: 'register'; readonly frame: WorkerFrameOf<'register'> }
  /** The sender uses another protocol version; reported before any other fault of the frame. */
  | { readonly is: 'protocol'; readonly reason: string }
  | { readonly is: 'malformed'; readonly reason: string }

/**
 * Reads the first frame of an unregistered connection.
 *
 * @param hostVersion the version of the host's package, for a worker that speaks another protocol
 */
export function readRegister(text: string, hostVersion?: string): RegisterRead {
  const parsed = parseJson(text)
  const head = parsed.ok ? checkRegisterHead(parsed.value) : parsed
  if (!head.ok) return { is: 'malformed', reason: `the first frame must be register: ${head.error}` }
  if (head.value.protocolVersion !== PROTOCOL_VERSION)
    return { is: 'protocol', reason: versionMismatch(head.value, hostVersion) }
  const checked = checkRegister(head.value)
  return checked.ok ? { is: 'register', frame: checked.value } : { is: 'malformed', reason: checked.error }
}

const checkRegister = createOpenChecker(workerFrames.register)

/** Another version of the protocol may have other shapes here, so nothing but a number or a short text is repeated. */
function versionMismatch(
  { protocolVersion, oldestProtocolVersion, capabilities }: Static<typeof RegisterHead>,
  hostVersion: string | undefined,
): string {
  const oldest = typeof oldestProtocolVersion === 'number' ? oldestProtocolVersion : protocolVersion
  const version: unknown = Object(capabilities).version
  const itsVersion = typeof version === 'string' && VERSION_TEXT.test(version) ? version : undefined
  const host = `this host${inBrackets(hostVersion)} speaks protocol ${rangeText(PROTOCOL_VERSION_OLDEST, PROTOCOL_VERSION)}`
  const worker = `the worker${inBrackets(itsVersion)} ${rangeText(oldest, protocolVersion)}`
  return `${host}, ${worker}: update switchyard on the ${protocolVersion < PROTOCOL_VERSION ? 'worker’s machine' : 'host'}`
}

const VERSION_TEXT = /^[\w.+-]{1,32}$/
const inBrackets = (version: string | undefined): string => (version === undefined ? '' : ` (${version})`)
const rangeText = (oldest: number, newest: number): string =>
  oldest === newest ? `version ${newest}` : `versions ${oldest} to ${newest}`

/**
 * Reads any frame with one parse and one compiled check. The first frame must be `register`, and no later frame may
 * be. Unknown keys are not part of the returned frame.
 */
export function readWorkerFrame(text: string, registered: boolean): FrameCheck<WorkerFrame> {
  if (!registered) return firstFrame(readRegister(text))
  const parsed = parseJson(text, WORKER_FRAME_KEYS_MAX)
  const checked = parsed.ok ? readWorkerShape(parsed.value) : malformed(parsed.error)
  if (!checked.ok || checked.value.type !== 'register') return checked
  return malformed(problemAt(['type'], REGISTERED_TWICE))
}

/** A worker that registers once learns from these words that the line has repeated its frame. */
export const REGISTERED_TWICE = 'must not be register: this connection is registered already'

/** A numbered frame of an unknown type is a gap: without its number every later frame of its lease would wait. */
export function gapOfUnknownFrame(text: string): WorkerFrameOf<'lease-gap'> | undefined {
  const parsed = parseJson(text, WORKER_FRAME_KEYS_MAX)
  const numbered = parsed.ok ? checkNumbered(parsed.value) : parsed
  if (!numbered.ok) return undefined
  const { leaseId, seq } = numbered.value
  return { type: 'lease-gap', leaseId, from: seq, to: seq }
}

const checkNumbered = createOpenChecker(record('NumberedFrame', numberedFields))

/** Reads a frame of the host. Unknown keys are not part of the returned frame. */
export function readHostFrame(text: string): FrameCheck<HostFrame> {
  const parsed = parseJson(text, WORKER_FRAME_KEYS_MAX)
  return parsed.ok ? readHostShape(parsed.value) : malformed(parsed.error)
}

const firstFrame = (read: RegisterRead): FrameCheck<WorkerFrame> =>
  read.is === 'register' ? { ok: true, value: read.frame } : malformed(read.reason)

// ---- checks beyond the schema --------------------------------------------------------------------------------------

/** Returns the first problem of a frame that matches its schema, as `/path: message`. */
function frameProblem(frame: WorkerFrame): string | undefined {
  if (frame.type === 'run-usage-snapshot') return numberingProblem(frame) ?? entriesProblem(frame.snapshot)
  if (frame.type === 'run-artifact') return partProblem(frame)
  if (frame.type === 'lease-gap' && frame.to < frame.from)
    return problemAt(['to'], `must be at least from, which is ${frame.from}, not ${frame.to}`)
  return undefined
}

/** Frame numbers belong to a lease; a snapshot outside a lease has neither. */
function numberingProblem({ leaseId, seq }: WorkerFrameOf<'run-usage-snapshot'>): string | undefined {
  if (leaseId !== undefined && seq === undefined) return problemAt(['seq'], 'is required beside leaseId')
  if (seq !== undefined && leaseId === undefined) return problemAt(['leaseId'], 'is required beside seq')
  return undefined
}

function entriesProblem({ entries, packed }: SentUsageSnapshot): string | undefined {
  if (entries === undefined && packed === undefined) return problemAt(['snapshot', 'entries'], 'is required')
  if (entries === undefined || packed === undefined) return undefined
  return problemAt(['snapshot', 'packed'], 'must not stand beside entries')
}

function unpacked(frame: WorkerFrameOf<'run-usage-snapshot'>): FrameCheck<WorkerFrame> {
  const { packed, ...snapshot }: SentUsageSnapshot = frame.snapshot
  if (packed === undefined) return { ok: true, value: frame }
  const entries = prefixError('/snapshot/packed', unpackUsage(packed))
  return entries.ok
    ? { ok: true, value: { ...frame, snapshot: { ...snapshot, entries: entries.value } } }
    : malformed(entries.error)
}

/** File names are limited in bytes, but a schema counts characters. */
function partProblem({ name, data }: WorkerFrameOf<'run-artifact'>): string | undefined {
  if (new TextEncoder().encode(name).byteLength > ARTIFACT_NAME_BYTES_MAX)
    return problemAt(['name'], `must have at most ${ARTIFACT_NAME_BYTES_MAX} bytes`)
  return data.length % 4 === 0 ? undefined : problemAt(['data'], 'must be base64')
}
