/**
 * The configuration: every key with its limits and default; which keys are credentials, and which need a restart.
 *
 * Two forms exist: the file that a person edits (everything is optional) and the form that the service uses (defaults
 * filled in). Secrets are optional in both, and read as the mask wherever a configuration leaves the service, so the
 * masked form has the same type. The file must never contain the mask: that would be a lost credential.
 */
import Type, { type Static, type TProperties } from 'typebox'
import { ModelPatterns, ModelPrices, ServerTools } from './agents/model-use.ts'
import { AGENT_PROVIDERS, AGENTS, type AgentCredentialField, type AgentProvider } from './agents/registry.ts'
import { CODE_HOST_DRIVERS, CODE_HOST_FACTS, TRACKER_DRIVERS, TRACKER_FACTS } from './drivers.ts'
import { parseGitAddress } from './git-address.ts'
import {
  CONFIG_LIST_MAX,
  CREDENTIAL_CHARS_MAX,
  EPHEMERAL_SECONDS_MAX,
  HEARTBEAT_TIMEOUT_SECONDS_MAX,
  HEARTBEAT_TIMEOUT_SECONDS_MIN,
  INSTRUCTIONS_CHARS_MAX,
  LOGIN_CHARS_MAX,
  NAME_CHARS_MAX,
  PATH_CHARS_MAX,
  PORT_MAX,
  RECONNECT_GRACE_SECONDS_MAX,
  REPO_KEY_CHARS_MAX,
  REPOS_MAX,
  RETENTION_HOURS_MAX,
  RUN_ARTIFACTS_MIB_MAX,
  RUN_ARTIFACTS_MIB_MIN,
  RUN_COST_USD_MAX,
  RUN_LOG_MIB_MAX,
  RUN_LOG_MIB_MIN,
  RUN_MINUTES_MAX,
  RUN_TURNS_MAX,
  SANDBOX_DISK_GIB_MAX,
  SANDBOX_MEMORY_MIB_MAX,
  SANDBOX_MEMORY_MIB_MIN,
  SANDBOX_PROCESSES_MAX,
  SANDBOX_PROCESSES_MIN,
  SCRIPT_CHARS_MAX,
  TRACKER_POLL_SECONDS_MAX,
  TRACKER_POLL_SECONDS_MIN,
  URL_CHARS_MAX,
  WORKER_CONCURRENCY_MAX,
} from './limits.ts'
import { LOOPBACK_IPV4 } from './loopback.ts'
import { createChecker, type Parsed } from './parse.ts'
import { asShape, problemAt, type Shape } from './schema-errors.ts'
import {
  boundedList,
  Name,
  nonEmptyText,
  patternText,
  record,
  stringEnum,
  text,
  Url,
} from './schema-helpers.ts'

/** The text that replaces every secret. */
export const MASK = '***'

// ---- types of values -------------------------------------------------------------------------------------------

const Port = Type.Integer({ minimum: 0, maximum: PORT_MAX })
const positive = (maximum: number) => Type.Number({ exclusiveMinimum: 0, maximum })
const between = (minimum: number, maximum: number) => Type.Number({ minimum, maximum })
const whole = (minimum: number, maximum: number) => Type.Integer({ minimum, maximum })
const strings = (max = NAME_CHARS_MAX) => boundedList(nonEmptyText(max), CONFIG_LIST_MAX)
const Path = nonEmptyText(PATH_CHARS_MAX)

const Loopback = patternText(
  `^(localhost|${LOOPBACK_IPV4}|::1|\\[::1\\])$`,
  'a loopback name or address, such as 127.0.0.1',
  64,
)
const Host = patternText('^[A-Za-z0-9:.\\[\\]_-]+$', 'a host name or address', 255)
const Origin = patternText(
  '^(null|[a-z][a-z0-9+.-]*://[A-Za-z0-9.:_\\[\\]-]*)$',
  'an origin such as https://example.org, with no path',
  255,
)
const AllowedHost = patternText(
  '^(\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$',
  'a host name, *. in front for its subdomains, a port behind',
  255,
)
/** Safe in paths and shells, because the text becomes part of file names and URLs. */
const Remote = patternText(
  '^(?![.-])[A-Za-z0-9._-]{1,100}/(?!-|\\.{1,2}$)[A-Za-z0-9._-]{1,100}$',
  'a repository as owner/name',
  201,
)
const Branch = patternText('^(?!.*\\.\\.)[A-Za-z0-9_][A-Za-z0-9._/+@-]*$', 'a branch name', 255)
/**
 * Excludes command options, transport helpers (`ext::…` runs a command), and passwords or tokens before the host or
 * in a query: everyone who may read the configuration sees this URL.
 */
const CloneUrl = patternText(
  '^(?!https?://[^/]*@|https?://[^\\s]*[?#]|[a-z]+://[^/]*:[^/]*@)(https?://|ssh://|file://|/|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9.-]+:(?!:))[^\\s]*$',
  'an address that git can clone (https, ssh, file or a path) without a token in it',
  URL_CHARS_MAX,
)
/** The text goes into HTTP headers, so it has no spaces and no line ends. */
const Secret = Type.String({
  maxLength: CREDENTIAL_CHARS_MAX,
  pattern: '^[!-~]*$',
  'x-expects': 'a credential of printable characters without spaces',
  'x-secret': true,
})
const Login = Type.String({ maxLength: LOGIN_CHARS_MAX, 'x-secret': true })
/** A string, so that the mask can replace the instant together with its credential. */
const SecretInstant = Type.String({
  maxLength: 64,
  pattern: '^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z|\\*\\*\\*)?$',
  'x-expects': 'an instant such as 2026-01-31T12:00:00.000Z',
  'x-secret': true,
})

const REPO_KEY = `^(?!\\.{1,2}$)[^\\u0000-\\u001f\\u007f]{1,${REPO_KEY_CHARS_MAX}}$`

export const AgentProviderName = stringEnum(AGENT_PROVIDERS)
export const AgentEffort = stringEnum(['low', 'medium', 'high'])

export const SANDBOX_PROVIDERS = ['bwrap'] as const
export type SandboxProvider = (typeof SANDBOX_PROVIDERS)[number]
/** Runs recorded before their provider was known, and installations that do not choose one, have this. */
export const DEFAULT_SANDBOX_PROVIDER: SandboxProvider = 'bwrap'

// ---- sections --------------------------------------------------------------------------------------------------

const server = { host: Loopback, port: Port, allowedOrigins: boundedList(Origin, CONFIG_LIST_MAX) }

const fleet = {
  host: Type.Optional(Host),
  port: Port,
  publicUrl: Type.Optional(Url),
  tls: Type.Optional(record('FleetTls', { certFile: Path, keyFile: Path })),
  insecure: Type.Optional(Type.Boolean({ description: 'Other machines may connect without encryption.' })),
  heartbeatTimeoutSeconds: between(HEARTBEAT_TIMEOUT_SECONDS_MIN, HEARTBEAT_TIMEOUT_SECONDS_MAX),
  reconnectGraceSeconds: between(0, RECONNECT_GRACE_SECONDS_MAX),
  ephemeralSeconds: between(0, EPHEMERAL_SECONDS_MAX),
}

const sandbox = {
  provider: stringEnum(SANDBOX_PROVIDERS),
  concurrency: whole(1, WORKER_CONCURRENCY_MAX),
  retentionHours: between(0, RETENTION_HOURS_MAX),
  network: stringEnum(
    ['open', 'allowlist', 'none'],
    '`allowlist`: the code host, the registries of the repository’s lock files, and `allowedHosts`. `open`: any public address.',
  ),
  allowedHosts: boundedList(AllowedHost, CONFIG_LIST_MAX),
  memoryMib: Type.Optional(whole(SANDBOX_MEMORY_MIB_MIN, SANDBOX_MEMORY_MIB_MAX)),
  maxProcesses: whole(SANDBOX_PROCESSES_MIN, SANDBOX_PROCESSES_MAX),
  maxRunMinutes: positive(RUN_MINUTES_MAX),
  maxLogMib: whole(RUN_LOG_MIB_MIN, RUN_LOG_MIB_MAX),
  maxArtifactsMib: whole(RUN_ARTIFACTS_MIB_MIN, RUN_ARTIFACTS_MIB_MAX),
  diskQuotaGib: Type.Optional(positive(SANDBOX_DISK_GIB_MAX)),
  exposeCodehostToken: Type.Boolean(),
}

const AgentCommand = Type.Optional(nonEmptyText(SCRIPT_CHARS_MAX))
const commands = Object.fromEntries(AGENT_PROVIDERS.map((name) => [name, AgentCommand])) as Record<
  AgentProvider,
  typeof AgentCommand
>

const CREDENTIAL_SCHEMAS = {
  'api-key': Type.Optional(Secret),
  'oauth-token': Type.Optional(Secret),
  login: Type.Optional(Login),
}
const agentCredentials = Object.fromEntries(
  Object.values(AGENTS).flatMap(({ credentials }) =>
    credentials.map(({ field, kind }) => [field, CREDENTIAL_SCHEMAS[kind]]),
  ),
) as Record<AgentCredentialField, (typeof CREDENTIAL_SCHEMAS)['api-key']>

const agent = {
  provider: AgentProviderName,
  orchestratorModel: Name,
  orchestratorEffort: AgentEffort,
  maxCostUsd: Type.Optional(positive(RUN_COST_USD_MAX)),
  maxTurns: Type.Optional(whole(1, RUN_TURNS_MAX)),
  keyInSandbox: Type.Boolean({
    description:
      "The agent's credential lies in the sandbox. Otherwise the worker adds it outside, and the agent never has it.",
  }),
  serverTools: ServerTools,
  models: Type.Optional(ModelPatterns),
  prices: Type.Optional(ModelPrices),
  commands: record('AgentCommands', commands, "Command lines in place of a provider's own."),
  ...agentCredentials,
}

const eligible = { states: strings(), labels: strings(), projects: strings(), assignees: strings() }

const tracker = {
  driver: stringEnum(TRACKER_DRIVERS),
  apiUrl: Type.Optional(Url),
  apiKey: Type.Optional(Secret),
  refreshToken: Type.Optional(Secret),
  tokenExpiresAt: Type.Optional(SecretInstant),
  pollSeconds: between(TRACKER_POLL_SECONDS_MIN, TRACKER_POLL_SECONDS_MAX),
  eligible: record('EligibleTickets', eligible, 'Which tickets may become runs; an empty list allows all.'),
  startedState: Type.Optional(Name),
  reviewState: Type.Optional(Name),
  doneState: Type.Optional(Name),
  releasedState: Type.Optional(Name),
  whenTicketLeaves: stringEnum(
    ['finish', 'stop'],
    'A running run whose ticket somebody takes out of the eligible ones.',
  ),
  path: Type.Optional(Path),
}

const codehost = {
  driver: stringEnum(CODE_HOST_DRIVERS),
  apiUrl: Type.Optional(Url),
  token: Type.Optional(Secret),
  path: Type.Optional(Path),
}

const storage = { bucket: Name, publicBaseUrl: Url, token: Type.Optional(Secret) }

const repo = {
  remote: Remote,
  cloneUrl: Type.Optional(CloneUrl),
  defaultBranch: Type.Optional(Branch),
  trackerProject: Type.Optional(Name),
  label: Type.Optional(Name),
  agent: Type.Optional(AgentProviderName),
  setup: Type.Optional(text(SCRIPT_CHARS_MAX)),
  instructions: Type.Optional(text(INSTRUCTIONS_CHARS_MAX)),
  draftPulls: Type.Optional(Type.Boolean()),
  allowWorkflows: Type.Optional(
    Type.Boolean({ description: 'Changes of CI definitions are pushed; otherwise they are held back.' }),
  ),
  orders: Type.Optional(
    Type.Union([Type.Literal('writers'), boundedList(Name, CONFIG_LIST_MAX)], {
      description: 'Whose comments a follow-up obeys: writers, or writers and these logins.',
    }),
  ),
}

const connect = {
  codehostClientId: Type.Optional(Name),
  trackerClientId: Type.Optional(Name),
  trackerClientSecret: Type.Optional(Secret),
  apiBase: Type.Optional(Url),
}

const worker = { local: Type.Boolean({ description: 'The host runs a worker itself where it can.' }) }

const policy = { paused: Type.Boolean({ description: 'No run is dispatched; running work continues.' }) }

export const RepoMapping = record('RepoMapping', repo)
export type RepoMapping = Static<typeof RepoMapping>

const Repos = Type.Record(Type.String({ pattern: REPO_KEY }), RepoMapping, {
  additionalProperties: false,
  maxProperties: REPOS_MAX,
  'x-expects-key': `1 to ${REPO_KEY_CHARS_MAX} characters, none of them a control character, and not . or ..`,
})

export const ServiceConfig = record('ServiceConfig', {
  server: record('ServerConfig', server),
  fleet: record('FleetConfig', fleet),
  sandbox: record('SandboxConfig', sandbox),
  agent: record('AgentConfig', agent),
  tracker: record('TrackerConfig', tracker),
  codehost: record('CodehostConfig', codehost),
  storage: record('StorageConfig', storage),
  repos: Repos,
  connect: record('ConnectConfig', connect),
  worker: record('WorkerConfig', worker),
  policy: record('PolicyConfig', policy),
})
/** The form that the service uses, with defaults filled in. */
export type ServiceConfig = Static<typeof ServiceConfig>

// ---- the stored form -------------------------------------------------------------------------------------------

/** A section of the file: any of its keys may be missing, and so may the section. */
function optionalSection<P extends TProperties>(title: string, fields: P) {
  return Type.Optional(Type.Partial(Type.Object(fields), { title, additionalProperties: false }))
}

export const StoredConfig = record('StoredConfig', {
  server: optionalSection('StoredServer', server),
  fleet: optionalSection('StoredFleet', fleet),
  sandbox: optionalSection('StoredSandbox', sandbox),
  agent: optionalSection('StoredAgent', agent),
  tracker: optionalSection('StoredTracker', {
    ...tracker,
    eligible: optionalSection('StoredEligible', eligible),
  }),
  codehost: optionalSection('StoredCodehost', codehost),
  storage: optionalSection('StoredStorage', storage),
  repos: Type.Optional(Repos),
  connect: optionalSection('StoredConnect', connect),
  worker: optionalSection('StoredWorker', worker),
  policy: optionalSection('StoredPolicy', policy),
})
export type StoredConfig = Static<typeof StoredConfig>

// ---- the patch form --------------------------------------------------------------------------------------------

/** Every key may be missing, and `null` deletes a key. A repository mapping may be partial too. */
function patchable(shape: Shape): Shape {
  const { type, properties, patternProperties, maxProperties, 'x-expects-key': expectsKey } = shape
  if (type !== 'object') return shape
  return {
    type,
    additionalProperties: false,
    ...(properties === undefined ? {} : { properties: deletable(properties) }),
    ...(patternProperties === undefined ? {} : { patternProperties: deletable(patternProperties) }),
    ...(maxProperties === undefined ? {} : { maxProperties }),
    ...(expectsKey === undefined ? {} : { 'x-expects-key': expectsKey }),
  }
}

function deletable(fields: Readonly<Record<string, Shape>>): Record<string, Shape> {
  const entries = Object.entries(fields)
  return Object.fromEntries(
    entries.map(([key, field]) => [key, { anyOf: [patchable(field), { type: 'null' }] }]),
  )
}

export const ConfigPatch = Type.Unsafe<Record<string, unknown>>({
  ...patchable(asShape(ServiceConfig)),
  title: 'ConfigPatch',
  description: 'Any part of the configuration; null deletes a key.',
})

// ---- special keys ----------------------------------------------------------------------------------------------

/** Keys that only flows may write that have checked them with their provider. */
export const CREDENTIAL_PATHS = [
  '/tracker/apiKey',
  '/tracker/refreshToken',
  '/tracker/tokenExpiresAt',
  '/codehost/token',
  '/storage/token',
  ...Object.keys(agentCredentials).map((field) => `/agent/${field}`),
]

/** Secrets that a patch may write. */
export const CLIENT_SECRET_PATHS = ['/connect/trackerClientSecret']

/** Keys that read as the mask wherever a configuration leaves the service. */
export const SECRET_PATHS = [...CREDENTIAL_PATHS, ...CLIENT_SECRET_PATHS]

/** Settings that are bound once, when the listeners open. */
export const RESTART_PATHS = [
  '/server/port',
  '/server/host',
  '/fleet/host',
  '/fleet/port',
  '/fleet/tls',
] as const

// ---- defaults --------------------------------------------------------------------------------------------------

export const configDefaults: ServiceConfig = {
  server: { host: '127.0.0.1', port: 4400, allowedOrigins: [] },
  fleet: { port: 4401, heartbeatTimeoutSeconds: 45, reconnectGraceSeconds: 120, ephemeralSeconds: 600 },
  sandbox: {
    provider: DEFAULT_SANDBOX_PROVIDER,
    concurrency: 2,
    retentionHours: 24,
    network: 'allowlist',
    allowedHosts: [],
    maxProcesses: 512,
    maxRunMinutes: 120,
    maxLogMib: 64,
    maxArtifactsMib: 2_048,
    exposeCodehostToken: false,
  },
  agent: {
    provider: 'agentA',
    orchestratorModel: '',
    orchestratorEffort: 'medium',
    keyInSandbox: false,
    serverTools: [],
    commands: {},
  },
  tracker: {
    driver: 'linear',
    pollSeconds: 30,
    eligible: { states: ['Todo'], labels: [], projects: [], assignees: [] },
    whenTicketLeaves: 'finish',
  },
  codehost: { driver: 'github' },
  storage: { bucket: '', publicBaseUrl: '' },
  repos: {},
  connect: {},
  worker: { local: true },
  policy: { paused: false },
}

/** The two forms of one configuration. */
export interface CompletedConfig {
  readonly stored: StoredConfig
  readonly effective: ServiceConfig
}

const checkStored = createChecker(StoredConfig)

/**
 * Validates a stored configuration and fills in the defaults. The argument is not changed and shares nothing with the
 * result.
 */
export function completeConfig(stored: unknown): Parsed<CompletedConfig> {
  const checked = checkStored(stored)
  if (!checked.ok) return checked
  const own = structuredClone(checked.value)
  const effective = withDefaults(own)
  const problem = maskProblem(own) ?? configProblems(effective)
  return problem === undefined
    ? { ok: true, value: { stored: own, effective } }
    : { ok: false, error: problem }
}

function withDefaults(stored: StoredConfig): ServiceConfig {
  const defaults = structuredClone(configDefaults)
  const own = structuredClone(stored)
  return {
    server: { ...defaults.server, ...own.server },
    fleet: { ...defaults.fleet, ...own.fleet },
    sandbox: { ...defaults.sandbox, ...own.sandbox },
    agent: { ...defaults.agent, ...own.agent },
    tracker: {
      ...defaults.tracker,
      ...own.tracker,
      eligible: { ...defaults.tracker.eligible, ...own.tracker?.eligible },
    },
    codehost: { ...defaults.codehost, ...own.codehost },
    storage: { ...defaults.storage, ...own.storage },
    repos: own.repos ?? {},
    connect: { ...own.connect },
    worker: { ...defaults.worker, ...own.worker },
    policy: { ...defaults.policy, ...own.policy },
  }
}

// ---- checks beyond the schema ----------------------------------------------------------------------------------

/** Returns the first problem of a configuration that matches its schema, as `/path: message`. */
export function configProblems(config: ServiceConfig): string | undefined {
  return (
    originProblem(config.server.allowedOrigins) ??
    addressProblem(config) ??
    driverProblem(config) ??
    cloneUrlProblem(config.repos)
  )
}

/** The worker's own parser decides, so the configuration has no address that every worker refuses. */
function cloneUrlProblem(repos: ServiceConfig['repos']): string | undefined {
  for (const [key, { cloneUrl }] of Object.entries(repos)) {
    const parsed = cloneUrl === undefined ? undefined : parseGitAddress(cloneUrl)
    if (parsed?.ok === false) return problemAt(['repos', key, 'cloneUrl'], parsed.error)
  }
  return undefined
}

/** Origins are compared as text, so a form that no browser sends would never match. */
function originProblem(origins: readonly string[]): string | undefined {
  for (const [index, origin] of origins.entries()) {
    if (!/^https?:/.test(origin)) continue
    const path = `/server/allowedOrigins/${index}`
    if (!URL.canParse(origin)) return `${path}: must be an origin such as https://example.org, with no path`
    const written = new URL(origin).origin
    if (written !== origin) return `${path}: must be written as browsers write it: ${written}`
  }
  return undefined
}

function maskProblem(stored: StoredConfig): string | undefined {
  const masked = SECRET_PATHS.find((path) => {
    const [, section = '', key = ''] = path.split('/')
    const fields: Readonly<Record<string, unknown>> = Object(Reflect.get(stored, section))
    return fields[key] === MASK
  })
  return masked === undefined
    ? undefined
    : `${masked}: is the mask, not a credential; leave the key out instead`
}

/** A driver that works on a folder needs its path. */
function driverProblem({ tracker, codehost }: ServiceConfig): string | undefined {
  return (
    pathProblem('tracker', tracker, TRACKER_FACTS[tracker.driver].folderHolds) ??
    pathProblem('codehost', codehost, CODE_HOST_FACTS[codehost.driver].folderHolds)
  )
}

function pathProblem(
  section: string,
  { driver, path }: { readonly driver: string; readonly path?: string },
  folderHolds: string | undefined,
): string | undefined {
  if (folderHolds === undefined || path !== undefined) return undefined
  return `/${section}/path: is required by the ${driver} driver: the folder with ${folderHolds}`
}

function addressProblem({ fleet, tracker, codehost, storage, connect }: ServiceConfig): string | undefined {
  return (
    urlProblem('/fleet/publicUrl', fleet.publicUrl, ['http:', 'https:', 'ws:', 'wss:']) ??
    upstreamProblem('/tracker/apiUrl', tracker.apiUrl) ??
    upstreamProblem('/codehost/apiUrl', codehost.apiUrl) ??
    upstreamProblem('/connect/apiBase', connect.apiBase) ??
    urlProblem('/storage/publicBaseUrl', storage.publicBaseUrl || undefined, ['http:', 'https:'])
  )
}

/** Tokens are sent to this URL, so it must be encrypted or on this machine. */
function upstreamProblem(path: string, value: string | undefined): string | undefined {
  const problem = urlProblem(path, value, ['http:', 'https:'])
  if (problem !== undefined || value === undefined) return problem
  const { protocol, hostname } = new URL(value)
  if (protocol === 'https:' || isLoopback(hostname)) return undefined
  return `${path}: must be an https address, or http to this machine`
}

function urlProblem(path: string, value: string | undefined, schemes: readonly string[]): string | undefined {
  if (value === undefined) return undefined
  const url = URL.canParse(value) ? new URL(value) : undefined
  const names = schemes.map((scheme) => `${scheme}//`).join(' or ')
  if (url === undefined || !schemes.includes(url.protocol))
    return `${path}: must be an address that begins with ${names}`
  if (url.username !== '' || url.password !== '') return `${path}: must not hold a user name or password`
  return undefined
}

/** `hostname`: as `URL` normalizes it: IPv4 in four parts, IPv6 in brackets. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}
