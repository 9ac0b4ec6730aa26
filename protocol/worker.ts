/**
 * Workers as people and supervisors see them, and what the host reports about itself.
 *
 * Nothing here contains a worker's credential: the host stores a hash, and only the `registered` frame carries a
 * credential. A pairing token or a join key is returned once, to the person who asked for it.
 */
import Type, { type Static } from 'typebox'
import { AGENT_PROVIDERS, type AgentProvider } from './agents/registry.ts'
import {
  AGENT_PROBLEM_CHARS_MAX,
  ATTACH_VIEWS_MAX,
  HOST_USER_CHARS_MAX,
  PORT_MAX,
  TEXT_CHARS_MAX,
  WORKER_CONCURRENCY_MAX,
} from './limits.ts'
import { addedKey, Count, Id, Instant, Name, record, stringEnum, text } from './schema-helpers.ts'

/**
 * The header of the worker channel's upgrade request beside `Authorization: Bearer <credential>`. A pairing token or a
 * join key as the bearer needs no id.
 */
export const WORKER_ID_HEADER = 'x-switchyard-worker'

export const WorkerAgent = record('WorkerAgent', {
  found: Type.Boolean({ description: 'Whether the worker can run the agent.' }),
  version: Type.Optional(Name),
  loggedIn: Type.Optional(
    Type.Boolean({
      description: 'The machine has a login of the agent. Runs use the credentials of the host.',
    }),
  ),
  problem: Type.Optional(text(AGENT_PROBLEM_CHARS_MAX, 'Why the agent cannot be run, and what to do.')),
})
export type WorkerAgent = Static<typeof WorkerAgent>

/** The agents of a worker. An agent that is not named counts as not found. */
export type WorkerAgents = Readonly<Partial<Record<AgentProvider, WorkerAgent>>>
const WorkerAgents = Type.Unsafe<WorkerAgents>(
  record(
    'WorkerAgents',
    Object.fromEntries(AGENT_PROVIDERS.map((provider) => [provider, Type.Optional(WorkerAgent)])),
  ),
)

export const WorkerCapabilities = record('WorkerCapabilities', {
  os: Name,
  arch: Name,
  provider: Name,
  maxConcurrency: Type.Integer({ minimum: 1, maximum: WORKER_CONCURRENCY_MAX }),
  version: Name,
  /** How a run's memory and processes are limited: by a control group, or only by limits of single processes. */
  limits: Type.Optional(stringEnum(['cgroup', 'rlimit'])),
  /** Workers of an earlier version name none; they count as having every agent and its credential. */
  agents: addedKey(WorkerAgents),
  /** The git outside the sandboxes, such as `2.39.5`. */
  gitVersion: addedKey(Name),
  once: addedKey(Type.Boolean({ description: 'The worker takes one run and ends.' })),
  publish: addedKey(
    Type.Boolean({ description: 'The worker can publish again what a finished run could not publish.' }),
  ),
  /** Such a worker also publishes the work of an agent that was done, whether the agent can resume its session or not. */
  continuesSessions: addedKey(
    Type.Boolean({
      description: 'An agent that was interrupted can go on in its session, in the kept sandbox.',
    }),
  ),
  holdsKeys: addedKey(
    Type.Boolean({
      description: 'The worker publishes no work that holds keys, unless a person says so.',
    }),
  ),
  ending: addedKey(Type.Boolean({ description: 'The worker takes no more runs and is about to end.' })),
})
export type WorkerCapabilities = Static<typeof WorkerCapabilities>

export const WorkerState = stringEnum(['active', 'draining'])
export type WorkerState = Static<typeof WorkerState>

/**
 * The holder of a drain: a person by the management API, a program with the worker's own credential, the supervisor,
 * which says so, or a provisioning that upgrades the worker.
 */
export const DrainHolder = stringEnum(['operator', 'worker', 'supervisor', 'provision'])
export type DrainHolder = Static<typeof DrainHolder>
export const DrainHolders = Type.Array(DrainHolder, {
  maxItems: 4,
  description: 'Who drains the worker; absent while it is active.',
})

export const WorkerView = record('WorkerView', {
  id: Id,
  name: Name,
  state: WorkerState,
  drainedBy: Type.Optional(DrainHolders),
  connection: stringEnum(['online', 'offline']),
  local: Type.Optional(Type.Boolean({ description: 'The worker that the host started on its own machine.' })),
  capabilities: Type.Optional(WorkerCapabilities),
  activeRuns: Count,
  attachSessions: Type.Optional({ ...Count, description: 'Terminals of resumed runs; absent: none.' }),
  attachedRuns: Type.Optional(
    Type.Array(Id, {
      maxItems: ATTACH_VIEWS_MAX,
      description: 'The runs whose terminals this host has opened; absent: none.',
    }),
  ),
  enrolledAt: Instant,
  connectedAt: Type.Optional(Instant),
  lastSeenAt: Type.Optional(Instant),
  address: Type.Optional(Name),
  joinKey: Type.Optional(Id),
  ephemeral: Type.Optional(
    Type.Boolean({ description: 'Removed by itself `fleet.ephemeralSeconds` after it left.' }),
  ),
})
export type WorkerView = Static<typeof WorkerView>

export const FleetResponse = record('FleetResponse', {
  workers: Type.Array(WorkerView, { description: 'Oldest enrollment first.' }),
})
export type FleetResponse = Static<typeof FleetResponse>

export const HostExecution = Type.Union(
  [
    record('LocalWorkerExecution', { kind: Type.Literal('local-worker') }),
    record('NoHostExecution', {
      kind: Type.Literal('none'),
      reason: stringEnum(['bwrap-unavailable', 'unsupported-platform']),
    }),
  ],
  { title: 'HostExecution' },
)
export type HostExecution = Static<typeof HostExecution>

export const HealthResponse = record('HealthResponse', {
  ok: Type.Literal(true),
  version: Name,
  sandboxProvider: Name,
  hostMemMib: Type.Optional(Count),
  hostExecution: Type.Optional(HostExecution),
  /** Fixed sentences about what keeps the service from its whole work: the route needs no token. */
  degraded: Type.Optional(Type.Array(Name)),
})
export type HealthResponse = Static<typeof HealthResponse>

// ---- enrollment ------------------------------------------------------------------------------------------------

export const CertificateFingerprint = Type.Optional(
  text(128, "SHA-256 of the fleet listener's certificate, for comparing it on the worker's machine."),
)

export const HostUser = Type.Optional(
  text(
    HOST_USER_CHARS_MAX,
    'The number of the user whose program the host is, for a worker on the same machine; absent when that is root.',
  ),
)

export const FleetPort = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: PORT_MAX,
    description:
      'The port at which the host listens for other machines since its start; 0 where it listens for none.',
  }),
)

export const PairingTokenResponse = record('PairingTokenResponse', {
  token: Name,
  expiresAt: Instant,
  fingerprint: CertificateFingerprint,
  hostUser: HostUser,
  fleetPort: FleetPort,
})
export type PairingTokenResponse = Static<typeof PairingTokenResponse>

/** Longer names are truncated, not refused, so this bound only limits the body size. */
export const RenameRequest = record('RenameRequest', { name: text(TEXT_CHARS_MAX) })
export type RenameRequest = Static<typeof RenameRequest>
