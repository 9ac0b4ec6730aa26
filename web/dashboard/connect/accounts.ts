/** The accounts of the page Connect: what each is for, how it is connected, and what is wrong with it. */
import { connectionsOf } from '../../../client/connections.ts'
import { CREDENTIALS_BY_HAND, type CredentialRequestField, KEY_SETTINGS } from '../../../client/settings.ts'
import { AGENTS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { StorageStatus } from '../../../protocol/connect.ts'
import { CODE_HOST_FACTS, TRACKER_FACTS, type TrackerDriverName } from '../../../protocol/drivers.ts'
import type { TrackerStatus } from '../../../protocol/tracker.ts'
import type { WorkerView } from '../../../protocol/worker.ts'

/** `folder`: on this machine, without an account. `waiting`: the host mends it by itself. */
export type AccountState = 'connected' | 'missing' | 'refused' | 'waiting' | 'folder'

export interface Account {
  readonly provider: ReturnType<typeof connectionsOf>[number]['provider']
  readonly title: string
  readonly state: AccountState
  /** The product, the account, and the kind of credential. */
  readonly detail: string
  readonly purpose: string
  /** Sentences about how it is connected without a key by hand. */
  readonly means: string
  /** The program's own command by which a person logs in on the host. */
  readonly loginCommand?: string
  readonly problems: readonly string[]
  /** The field of a request that gives a key by hand. */
  readonly keyField?: CredentialRequestField
  /** Why it cannot be disconnected here. */
  readonly kept?: string
}

export interface AccountSource {
  readonly config: ServiceConfig
  readonly tracker: TrackerStatus
  readonly storage: StorageStatus
  readonly attention: readonly AttentionItem[]
  readonly workers: readonly WorkerView[]
}

/** How each tracker is connected without a key by hand. */
const TRACKER_MEANS: Readonly<Record<TrackerDriverName, string>> = {
  linear:
    'Linear asks you for consent on a page of its own. Or create an API key there, under Security & access.',
  github: 'Issues are read with the token of the code host, or with a token of their own.',
  local: '',
}

export function accountsOf(source: AccountSource): Account[] {
  const states = new Map(connectionsOf(source).map(({ provider, state }) => [provider, state]))
  return [
    trackerAccount(source, states.get('tracker') ?? ''),
    codehostAccount(source, states.get('codehost') ?? ''),
    ...Object.values(AGENTS).map(({ provider }) =>
      agentAccount(source, provider, states.get(provider) ?? ''),
    ),
    storageAccount(source),
  ]
}

/** The findings of the host about a provider are items with the command that connects it anew. */
const problemsOf = ({ attention }: AccountSource, provider: string): string[] =>
  attention
    .filter(({ kind, cure = '' }) => kind === 'login' && cure.endsWith(` connect ${provider}`))
    .map(({ message }) => message)

function keyOf(provider: string): Pick<Account, 'keyField'> {
  const keyField = CREDENTIALS_BY_HAND[KEY_SETTINGS[provider] ?? '']
  return keyField === undefined ? {} : { keyField }
}

function trackerAccount(source: AccountSource, state: string): Account {
  const { config, tracker } = source
  const { driver, path = '' } = config.tracker
  const about = {
    provider: 'tracker',
    title: 'Tracker',
    purpose: 'Tickets are read here, and moved as work goes on.',
  } as const
  if (driver === 'local')
    return { ...about, state: 'folder', detail: `Folder ${path}`, means: '', problems: errorOf(tracker) }
  const isOwn = (config.tracker.apiKey ?? '') !== ''
  const isShared = driver === 'github' && !isOwn
  return {
    ...about,
    ...keyOf('tracker'),
    state: TRACKER_STATES[state] ?? 'missing',
    detail: `${TRACKER_FACTS[driver].productName ?? driver}${isShared && state === 'connected' ? ', with the token of the code host' : ''}`,
    means: TRACKER_MEANS[driver],
    problems: errorOf(tracker),
    ...(isShared ? { kept: 'The tracker has no token of its own. Disconnect the code host instead.' } : {}),
  }
}

const TRACKER_STATES: Readonly<Record<string, AccountState>> = {
  connected: 'connected',
  disconnected: 'missing',
  'auth-error': 'refused',
  'refresh-failing': 'waiting',
}

const errorOf = ({ error }: TrackerStatus): string[] => (error === undefined ? [] : [error])

function codehostAccount(source: AccountSource, state: string): Account {
  const { driver, path = '' } = source.config.codehost
  const about = {
    provider: 'codehost',
    title: 'Code host',
    purpose: 'Branches are pushed and pull requests are opened here.',
  } as const
  const problems = problemsOf(source, 'codehost')
  if (driver === 'local') return { ...about, state: 'folder', detail: `Folder ${path}`, means: '', problems }
  return {
    ...about,
    ...keyOf('codehost'),
    state: withProblems(state, problems),
    detail: CODE_HOST_FACTS[driver].productName ?? driver,
    means:
      'GitHub asks for a code that is shown here. Or give a token with the scope repo, or a fine-grained one.',
    problems,
  }
}

const withProblems = (state: string, problems: readonly string[]): AccountState =>
  state !== 'connected' ? 'missing' : problems.length > 0 ? 'refused' : 'connected'

/** The places where the host finds an agent's login. */
const AGENT_MEANS: Readonly<Record<AgentProvider, string>> = {
  agentA:
    'The host uses CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_API_KEY of its environment, or the login of claude on its machine.',
  agentB:
    'The host uses the login of codex on its machine. Connect again when it has expired, after about ten days.',
  agentC: 'The host uses GEMINI_API_KEY of its environment, or the login of gemini on its machine.',
}

const KINDS = { 'api-key': 'API key', 'oauth-token': 'token', login: 'login' } as const

function agentAccount(source: AccountSource, provider: AgentProvider, state: string): Account {
  const { config, workers } = source
  const { productName, credentials, loginCommand } = AGENTS[provider]
  const used = credentials.find(({ field }) => (config.agent[field] ?? '') !== '')
  const found = workers.filter(({ capabilities }) => capabilities?.agents?.[provider]?.found === true)
  const isUnusable = used?.worksOnlyInSandbox === true && !config.agent.keyInSandbox
  const problems = [
    ...problemsOf(source, provider),
    ...(isUnusable ? [`Its ${KINDS[used.kind]} works only while agent.keyInSandbox is on.`] : []),
  ]
  const key = keyOf(provider)
  const on = workers.length === 0 ? '' : `found on ${found.length} of ${workers.length} workers`
  return {
    provider,
    title: productName,
    ...key,
    state: withProblems(state, problems),
    detail: [used === undefined ? '' : KINDS[used.kind], on].filter(Boolean).join(', '),
    purpose:
      config.agent.provider === provider
        ? 'Works on runs, unless another agent is chosen.'
        : 'Works on runs for which it is chosen.',
    means: AGENT_MEANS[provider],
    loginCommand,
    problems,
    ...(key.keyField === undefined
      ? {
          kept: `No request takes the login of ${productName} away. Delete agent.${used?.field ?? 'agentBLogin'} from the host’s config.json.`,
        }
      : {}),
  }
}

function storageAccount({ config, storage }: AccountSource): Account {
  const { installed, loggedIn, account = '', bucket, publicBaseUrl, ready } = storage
  const problems = [
    ...(installed ? [] : ['wrangler is not installed on the host: npm install --global wrangler']),
    ...(loggedIn && bucket === '' ? ['storage.bucket is not set.'] : []),
    ...(loggedIn && publicBaseUrl === '' ? ['storage.publicBaseUrl is not set.'] : []),
  ]
  return {
    provider: 'storage',
    title: 'Storage',
    state: ready ? 'connected' : loggedIn ? 'refused' : 'missing',
    detail: [account, bucket].filter(Boolean).join(', bucket '),
    purpose:
      'Artifacts of completed runs are uploaded, and pull requests link to them. Runs work without it.',
    means:
      'The host starts wrangler login, which opens a browser on its machine; or wrangler takes an API token.',
    problems,
    ...keyOf('storage'),
    ...((config.storage.token ?? '') === ''
      ? { kept: 'wrangler keeps the login: run wrangler logout on the host.' }
      : {}),
  }
}
