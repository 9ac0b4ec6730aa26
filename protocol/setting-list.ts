/**
 * Every setting with its meaning, default, limits, and what a change of it needs, read from the schema of the
 * configuration.
 *
 * The build puts the finished list into pages in place of this file, because the schema library is large.
 */
import {
  CLIENT_SECRET_PATHS,
  CREDENTIAL_PATHS,
  configDefaults,
  RESTART_PATHS,
  ServiceConfig,
} from './config.ts'
import { asShape, type Shape } from './schema-errors.ts'

export type SettingValueKind =
  | 'text'
  | 'lines'
  | 'number'
  | 'switch'
  | 'choice'
  | 'list'
  | 'group'
  | 'table'
  | 'secret'
  | 'credential'

export interface ListedSetting {
  /** Dotted; `*` stands for the key of a repository. */
  readonly key: string
  readonly meaning: string
  /**
   * `lines`: a text of several lines. `group`: texts that are set together. `table`: rows with names of their own, as
   * JSON. `credential`: only connecting writes it.
   */
  readonly kind: SettingValueKind
  /** The values of a choice, or the names of a group's texts. */
  readonly options?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  /** Completes the message "must be …". */
  readonly expects?: string
  /** Absent where the setting is not set by default. */
  readonly default?: unknown
  /** The setting can be taken away. */
  readonly isOptional?: true
  readonly needsRestart?: true
}

/**
 * The meaning of every setting, for people who read or change one. The keys are dotted; `*` stands for the key of a
 * repository. The meaning of a choice or a switch says what each value does.
 */
export const SETTING_MEANINGS: Readonly<Record<string, string>> = {
  'server.host': 'The address of this machine on which the commands and pages reach the host.',
  'server.port': 'The port of that address; 0 picks a free one.',
  'server.allowedOrigins': 'Web pages of other origins that may call this service with its token.',

  'fleet.host':
    'The address on which workers of other machines connect. Without it only this machine runs work.',
  'fleet.port': 'The port of that address; 0 picks a free one.',
  'fleet.publicUrl': 'The address that workers dial, where it differs: a proxy, a name in the DNS.',
  'fleet.tls': 'Certificate and key of the listener for workers.',
  'fleet.insecure':
    'Other machines may connect without encryption: anyone on the path can read every credential.',
  'fleet.heartbeatTimeoutSeconds': 'A worker that is silent for so long counts as offline.',
  'fleet.reconnectGraceSeconds': 'An offline worker keeps its runs for so long; then they are queued again.',
  'fleet.ephemeralSeconds': 'An ephemeral worker is forgotten so long after its last connection and run.',

  'sandbox.provider': 'What isolates a run from its machine.',
  'sandbox.concurrency': 'How many runs the host’s own worker executes at once.',
  'sandbox.retentionHours': 'How long the disk of a finished run is kept for terminals and follow-ups.',
  'sandbox.network':
    'What a sandbox reaches. allowlist: the code host, the registries of the repository’s lock files, and allowed hosts. open: any public address. none: nothing.',
  'sandbox.allowedHosts': 'Hosts that a sandbox may reach besides; *. in front stands for all subdomains.',
  'sandbox.memoryMib': 'Memory of a sandbox in MiB. A run with a limit waits for a worker that can hold it.',
  'sandbox.maxProcesses': 'How many processes a sandbox may have at once.',
  'sandbox.maxRunMinutes': 'A run that takes longer is ended.',
  'sandbox.maxLogMib': 'How much log is kept of a run; of more, the head and the tail.',
  'sandbox.maxArtifactsMib': 'How much a run may hand in as artifacts.',
  'sandbox.diskQuotaGib':
    'Disk for all retained sandboxes of a worker, by default a quarter of the disk. The oldest are deleted first.',
  'sandbox.exposeCodehostToken':
    'The agent can read the token of the code host. Off: git is served without it.',

  'agent.provider':
    'The agent that works on runs, where neither the repository nor the person chose another.',
  'agent.orchestratorModel': 'The model that the agent uses; empty leaves it to the agent.',
  'agent.orchestratorEffort': 'How much the agent thinks before it acts.',
  'agent.maxCostUsd': 'A run is ended when one execution of it costs more dollars.',
  'agent.maxTurns': 'A run that takes more turns of its agent is ended.',
  'agent.keyInSandbox':
    'The agent’s credential lies in the sandbox. Off: the worker adds it outside, and the agent never has it.',
  'agent.serverTools':
    'Tools that run at the model’s vendor, and what it may fetch or keep: web_search, web_fetch, mcp, code_execution, files, urls. With no network there are none.',
  'agent.models':
    'Models that agents may ask; * stands for any characters. Not set: the run’s model and the vendor’s small ones, or all of the vendor where a run names none.',
  'agent.prices':
    'Prices of models in dollars for a million tokens, where the built-in list has none or another: input, output, cacheRead, cacheWrite.',
  'agent.commands.agentA': 'A command line in place of the one that starts Claude Code.',
  'agent.commands.agentB': 'A command line in place of the one that starts Codex.',
  'agent.commands.agentC': 'A command line in place of the one that starts Gemini CLI.',
  'agent.agentAApiKey': 'The API key of Claude Code.',
  'agent.agentAOauthToken': 'The login of Claude Code.',
  'agent.agentBApiKey': 'The API key of Codex.',
  'agent.agentBLogin': 'The login of Codex.',
  'agent.agentCApiKey': 'The API key of Gemini CLI.',
  'agent.agentCLogin': 'The login of Gemini CLI; it works only where the credential lies in the sandbox.',

  'tracker.driver':
    'Where tickets live. linear: Linear. github: issues of the repositories. local: a folder of Markdown files.',
  'tracker.apiUrl': 'The server of the tracker, where it is not the public one.',
  'tracker.apiKey': 'The key or token by which the host reads and moves tickets.',
  'tracker.refreshToken': 'Renews the token before it expires.',
  'tracker.tokenExpiresAt': 'When the token expires.',
  'tracker.pollSeconds': 'How often the tracker is asked for tickets.',
  'tracker.eligible.states':
    'Tickets in these states may become runs; an empty list allows every open state.',
  'tracker.eligible.labels': 'Tickets with one of these labels may become runs; an empty list allows all.',
  'tracker.eligible.projects': 'Tickets of these projects may become runs; an empty list allows all.',
  'tracker.eligible.assignees': 'Tickets of these people may become runs; an empty list allows all.',
  'tracker.startedState': 'Where a ticket goes when work on it begins.',
  'tracker.reviewState': 'Where a ticket goes when its pull request is up for review.',
  'tracker.doneState': 'Where a ticket goes when its pull request is merged.',
  'tracker.releasedState':
    'Where a ticket goes when its run is cancelled or has failed for good; without it, back to where it came from.',
  'tracker.whenTicketLeaves':
    'What becomes of a run whose ticket somebody takes out of the eligible ones. finish: it goes on. stop: it is cancelled.',
  'tracker.path': 'The folder of Markdown files, one a ticket, of the driver local.',

  'codehost.driver': 'Where repositories live. github: GitHub. local: a folder of bare repositories.',
  'codehost.apiUrl': 'The server of the code host, where it is not the public one.',
  'codehost.token': 'The token by which branches are pushed and pull requests are opened.',
  'codehost.path': 'The folder of bare repositories of the driver local.',

  'storage.bucket': 'The bucket to which artifacts of completed runs are uploaded.',
  'storage.token': 'The token by which artifacts are uploaded; without it, the login of wrangler.',
  'storage.publicBaseUrl': 'The public address of that bucket, with which links to artifacts begin.',

  'repos.*.remote': 'The repository at the code host, as owner/name.',
  'repos.*.cloneUrl': 'The address that git clones, where the code host does not tell it.',
  'repos.*.defaultBranch': 'The branch on which runs begin, where it is not the repository’s own.',
  'repos.*.trackerProject': 'Tickets of this project of the tracker belong to the repository.',
  'repos.*.label': 'Tickets with this label belong to the repository.',
  'repos.*.agent': 'The agent for this repository.',
  'repos.*.setup': 'Commands that prepare a fresh checkout, such as installing packages.',
  'repos.*.instructions': 'What every agent is told about this repository.',
  'repos.*.draftPulls': 'Pull requests are opened as drafts.',
  'repos.*.allowWorkflows': 'Changes of CI definitions are pushed. Off: they are held back.',
  'repos.*.orders': 'Whose comments a follow-up obeys: writers, or writers and these logins.',

  'connect.codehostClientId': 'Your own application at the code host, for its device login.',
  'connect.trackerClientId': 'Your own application at the tracker, for its consent page.',
  'connect.trackerClientSecret': 'The secret of that application; a public application has none.',
  'connect.apiBase': 'The OAuth helper that connects accounts where you have no application of your own.',

  'worker.local': 'The host runs a worker itself where it can.',

  'policy.paused': 'No run is dispatched; running work goes on.',
}

/** Texts that may be longer are scripts and prose of several lines. */
const LINE_CHARS_MAX = 4_096

export const SETTING_LIST: readonly ListedSetting[] = settingsOf(asShape(ServiceConfig), [])

function settingsOf(shape: Shape, path: readonly string[]): ListedSetting[] {
  const { properties = {}, patternProperties = {}, required = [] } = shape
  const fixed = Object.entries(properties).flatMap(([name, field]) => {
    const isOptional = !required.includes(name)
    // A group that can be absent is set as a whole.
    return field.type === 'object' && !isOptional
      ? settingsOf(field, [...path, name])
      : [settingOf(field, [...path, name], isOptional)]
  })
  const named = Object.values(patternProperties).flatMap((field) => settingsOf(field, [...path, '*']))
  return [...fixed, ...named]
}

function settingOf(shape: Shape, path: readonly string[], isOptional: boolean): ListedSetting {
  const key = path.join('.')
  const pointer = `/${path.join('/')}`
  const value: unknown = path.reduce<unknown>((at, part) => Reflect.get(Object(at), part), configDefaults)
  const minimum = shape.minimum ?? shape.exclusiveMinimum
  const { maximum } = shape
  const expects = shape['x-expects'] ?? shape.items?.['x-expects']
  const isRestart = RESTART_PATHS.some((restart) => restart === pointer)
  return {
    key,
    meaning: SETTING_MEANINGS[key] ?? '',
    ...kindOf(shape, pointer),
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
    ...(expects === undefined ? {} : { expects }),
    ...(value === undefined ? {} : { default: value }),
    ...(isOptional ? { isOptional } : {}),
    ...(isRestart ? { needsRestart: true } : {}),
  }
}

function kindOf(shape: Shape, pointer: string): Pick<ListedSetting, 'kind' | 'options'> {
  if (CREDENTIAL_PATHS.includes(pointer)) return { kind: 'credential' }
  if (CLIENT_SECRET_PATHS.includes(pointer)) return { kind: 'secret' }
  if (shape.enum !== undefined) return { kind: 'choice', options: shape.enum.map(String) }
  switch (shape.type) {
    case 'boolean':
      return { kind: 'switch' }
    case 'number':
    case 'integer':
      return { kind: 'number' }
    case 'object':
      if (shape.patternProperties !== undefined) return { kind: 'table' }
      return { kind: 'group', options: Object.keys(shape.properties ?? {}) }
    case 'string':
      return { kind: (shape.maxLength ?? 0) > LINE_CHARS_MAX ? 'lines' : 'text' }
    default:
      // A list, or one word that stands for it.
      return { kind: 'list' }
  }
}
