/**
 * A ticket, its run, the run's events, and the facts that runs record about a repository.
 *
 * The host assigns `runId` and `index` of an event; a worker reports the rest. Both forms come from one table, so
 * they cannot differ.
 */
import Type, { type Static, type TProperties } from 'typebox'
import { AgentEffort, AgentProviderName } from './config.ts'
import { CostEntry, CostTotals } from './cost.ts'
import { FoundKeys } from './found-key.ts'
import {
  ARTIFACT_BYTES_MAX,
  ARTIFACT_NAME_BYTES_MAX,
  LABELS_MAX,
  LOG_TEXT_CHARS_MAX,
  MEMORY_CHARS_MAX,
  NAME_CHARS_MAX,
  PROSE_CHARS_MAX,
  RUN_ARTIFACTS_MAX,
  RUN_COSTS_MAX,
  RUN_INSTRUCTIONS_BYTES_MAX,
  TEXT_CHARS_MAX,
  WORKER_FRAME_BYTES_MAX,
} from './limits.ts'
import { RunSandbox } from './run-sandbox.ts'
import {
  AnyObject,
  addedKey,
  boundedList,
  Count,
  ForeignId,
  Id,
  Instant,
  Link,
  LinkOrNone,
  Name,
  nonEmptyText,
  patternText,
  record,
  stringEnum,
  Text,
  text,
} from './schema-helpers.ts'

export const TicketEdit = record('TicketEdit', { by: Name, at: Instant })
export type TicketEdit = Static<typeof TicketEdit>

export const Ticket = record('Ticket', {
  id: ForeignId,
  identifier: nonEmptyText(256, 'The short name people use, such as ENG-12.'),
  title: Text,
  description: text(PROSE_CHARS_MAX),
  url: LinkOrNone,
  state: Name,
  priority: Type.Unsafe<0 | 1 | 2 | 3 | 4>(
    Type.Integer({ minimum: 0, maximum: 4, description: '1 is urgent, 4 is low, 0 is none.' }),
  ),
  labels: boundedList(Name, LABELS_MAX),
  assignee: Type.Optional(Name),
  project: Type.Optional(Name),
  branchName: Type.Optional(Name),
  repo: Type.Optional(nonEmptyText(256, 'The key of the repository mapping this ticket belongs to.')),
  blockedBy: boundedList(ForeignId, LABELS_MAX),
  createdAt: Instant,
  updatedAt: Instant,
  /** The last edit by somebody who may not write, of words that somebody who may has made eligible before. */
  edited: addedKey(TicketEdit),
})
export type Ticket = Static<typeof Ticket>

export const RUN_STATUSES = [
  'queued',
  'preparing',
  'running',
  'finalizing',
  'completed',
  'failed',
  'cancelled',
] as const
export const RunStatus = stringEnum(RUN_STATUSES)
export type RunStatus = Static<typeof RunStatus>

export const PullState = stringEnum(['open', 'draft', 'merged', 'closed'])
export type PullState = Static<typeof PullState>

export const RunResult = record('RunResult', {
  prUrl: Type.Optional(Link),
  branch: Type.Optional(Name),
  summary: Type.Optional(text(PROSE_CHARS_MAX)),
  artifacts: boundedList(nonEmptyText(ARTIFACT_NAME_BYTES_MAX), RUN_ARTIFACTS_MAX),
})
export type RunResult = Static<typeof RunResult>

export const RunCosts = boundedList(CostEntry, RUN_COSTS_MAX)

export const RunPull = record('RunPull', {
  remote: nonEmptyText(256, 'The repository as owner/name.'),
  number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  branch: Name,
  confirmed: Type.Boolean({
    description: 'Whether the code host confirmed that it is a pull request of the branch.',
  }),
  openedAs: addedKey(
    stringEnum(['open', 'draft'], 'How its worker says to have opened it; absent once it is confirmed.'),
  ),
})
export type RunPull = Static<typeof RunPull>

const ModelName = patternText(
  '^(?!-)[^\\s\\p{Cc}]*$',
  'the name of a model, without spaces and with no - in front',
  NAME_CHARS_MAX,
)

/** The agent that a person chose for one run, in place of the configured one. */
export const RunAgentChoice = record('RunAgentChoice', {
  provider: Type.Optional(AgentProviderName),
  model: Type.Optional(ModelName),
  effort: Type.Optional(AgentEffort),
})
export type RunAgentChoice = Static<typeof RunAgentChoice>

/** The choices of a person who queues a run, a retry or a follow-up. */
export const RunOptions = record('RunOptions', {
  instructions: Type.Optional(
    text(
      RUN_INSTRUCTIONS_BYTES_MAX,
      `Words for the agent, at most ${RUN_INSTRUCTIONS_BYTES_MAX} bytes in UTF-8; an empty text removes earlier ones.`,
    ),
  ),
  ...RunAgentChoice.properties,
})
export type RunOptions = Static<typeof RunOptions>

export const PublishOptions = record('PublishOptions', {
  anyway: Type.Optional(
    Type.Literal(true, { description: 'Also when the work holds what looks like keys: a person says so.' }),
  ),
})
export type PublishOptions = Static<typeof PublishOptions>

export const Run = record('Run', {
  id: Id,
  ticket: Ticket,
  status: RunStatus,
  sandbox: RunSandbox,
  agentSessionId: Type.Optional(ForeignId),
  createdAt: Instant,
  queuedAt: Type.Optional(Instant),
  queueReason: Type.Optional(text(TEXT_CHARS_MAX, 'Why no worker has this queued run yet.')),
  waitReason: addedKey(text(TEXT_CHARS_MAX, 'Why a run that a worker has goes no further at the host.')),
  startedAt: Type.Optional(Instant),
  finishedAt: Type.Optional(Instant),
  result: Type.Optional(RunResult),
  error: Type.Optional(Text),
  costs: RunCosts,
  costTotals: Type.Optional(CostTotals),
  prUrl: Type.Optional(Link),
  prState: Type.Optional(PullState),
  pull: addedKey(RunPull),
  remote: addedKey(nonEmptyText(256, 'The repository in which a worker had it last, as owner/name.')),
  instructions: addedKey(text(RUN_INSTRUCTIONS_BYTES_MAX, 'What a person told the agent of this run.')),
  agent: addedKey(RunAgentChoice),
  foundKeys: addedKey(FoundKeys),
  foundKeysDigest: addedKey(
    text(NAME_CHARS_MAX, 'Differs when the work holds other keys, of which a person has said nothing yet.'),
  ),
  /** A person has started the run with the ticket's words as they were edited until then. */
  approvedEdit: addedKey(Instant),
})
export type Run = Static<typeof Run>

// ---- events ----------------------------------------------------------------------------------------------------

export const RunPhase = stringEnum(
  ['checkout', 'setup', 'agent', 'verify', 'publish', 'hook'],
  'What the worker was doing, where the worker reported it.',
)
export type RunPhase = Static<typeof RunPhase>

const phase = addedKey(RunPhase)

const eventFields = {
  status: {
    from: Type.Optional(RunStatus),
    to: RunStatus,
    reason: Type.Optional(Text),
    worker: addedKey(text(NAME_CHARS_MAX, 'The name of the worker that prepares the run.')),
    provider: addedKey(text(NAME_CHARS_MAX, 'The agent that works on the run from now on.')),
    phase,
  },
  log: { stream: stringEnum(['stdout', 'stderr', 'system']), text: text(LOG_TEXT_CHARS_MAX), phase },
  agent: { provider: Name, message: AnyObject },
  artifact: {
    name: nonEmptyText(ARTIFACT_NAME_BYTES_MAX),
    size: Type.Integer({ minimum: 0, maximum: ARTIFACT_BYTES_MAX }),
    contentType: Name,
  },
  cost: { entry: CostEntry },
  limit: { provider: Name, message: Text, resetsAt: Type.Optional(Instant) },
  gap: { from: Count, to: Count },
}

const storedEventFields = { runId: Id, index: Count, at: Instant }
const reportedEventFields = { at: Instant }

function event<H extends TProperties, K extends string, F extends TProperties>(
  title: string,
  head: H,
  type: K,
  fields: F,
) {
  return record(title, { ...head, type: Type.Literal(type), ...fields })
}

export const RunEvent = Type.Union(
  [
    event('RunStatusEvent', storedEventFields, 'status', eventFields.status),
    event('RunLogEvent', storedEventFields, 'log', eventFields.log),
    event('RunAgentEvent', storedEventFields, 'agent', eventFields.agent),
    event('RunArtifactEvent', storedEventFields, 'artifact', eventFields.artifact),
    event('RunCostEvent', storedEventFields, 'cost', eventFields.cost),
    event('RunLimitEvent', storedEventFields, 'limit', eventFields.limit),
    event('RunGapEvent', storedEventFields, 'gap', eventFields.gap),
  ],
  { title: 'RunEvent' },
)
export type RunEvent = Static<typeof RunEvent>

const reportedEvents = [
  event('ReportedStatusEvent', reportedEventFields, 'status', eventFields.status),
  event('ReportedAgentEvent', reportedEventFields, 'agent', eventFields.agent),
  event('ReportedArtifactEvent', reportedEventFields, 'artifact', eventFields.artifact),
  event('ReportedCostEvent', reportedEventFields, 'cost', eventFields.cost),
  event('ReportedLimitEvent', reportedEventFields, 'limit', eventFields.limit),
  event('ReportedGapEvent', reportedEventFields, 'gap', eventFields.gap),
] as const

/** An event as a worker reports it, before the host assigns its run and index. */
export const ReportedEvent = Type.Union(
  [event('ReportedLogEvent', reportedEventFields, 'log', eventFields.log), ...reportedEvents],
  { title: 'ReportedEvent' },
)
export type ReportedEvent = Static<typeof ReportedEvent>

/** A reported event as the host reads it: a worker may not have split a long log text, so the host does. */
export const ReceivedEvent = Type.Union(
  [
    event('ReceivedLogEvent', reportedEventFields, 'log', {
      ...eventFields.log,
      text: text(WORKER_FRAME_BYTES_MAX),
    }),
    ...reportedEvents,
  ],
  { title: 'ReceivedEvent' },
)

// ---- memory ----------------------------------------------------------------------------------------------------

export const RepoMemory = record('RepoMemory', {
  id: Id,
  text: nonEmptyText(MEMORY_CHARS_MAX, 'One fact on one line.'),
  createdAt: Instant,
  updatedAt: Instant,
  hits: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  ident: Type.Optional(nonEmptyText(256, 'The ticket that recorded it last.')),
  state: Type.Optional(
    Type.Enum(['new', 'kept'], {
      description:
        'Runs are told of a fact once a pull request of a run that recorded it was merged, or a person kept it. Absent for what an earlier version recorded, which counts as kept.',
    }),
  ),
})
export type RepoMemory = Static<typeof RepoMemory>

export const MemoriesResponse = record('MemoriesResponse', {
  repos: Type.Record(Type.String(), Type.Array(RepoMemory), {
    description: 'By repository, as owner/name; newest first.',
  }),
})
export type MemoriesResponse = Static<typeof MemoriesResponse>
