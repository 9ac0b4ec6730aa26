/**
 * The accounts that a host has connected, read from its masked configuration, its tracker and its storage; and the pages
 * on which people make the credentials that they give by hand.
 */
import { AGENTS } from '../protocol/agents/registry.ts'
import type { ServiceConfig } from '../protocol/config.ts'
import type { ConnectProvider, CredentialProvider, StorageStatus } from '../protocol/connect.ts'
import { GITHUB_API, type TrackerDriverName } from '../protocol/drivers.ts'
import type { TrackerStatus } from '../protocol/tracker.ts'
import type { CredentialRequestField } from './settings.ts'

export interface Connection {
  readonly provider: ConnectProvider | 'storage'
  /** `connected`, `not connected`, `local`, or a state of the tracker. */
  readonly state: string
  readonly account: string
}

export interface ConnectionSource {
  readonly config: Pick<ServiceConfig, 'tracker' | 'codehost' | 'agent'>
  readonly tracker: Pick<TrackerStatus, 'state'>
  readonly storage: Pick<StorageStatus, 'ready' | 'account'>
}

export function connectionsOf({ config, tracker, storage }: ConnectionSource): Connection[] {
  const { codehost, agent } = config
  return [
    { provider: 'tracker', state: tracker.state, account: config.tracker.driver },
    {
      provider: 'codehost',
      state: codehost.driver === 'local' ? 'local' : stateOf((codehost.token ?? '') !== ''),
      account: codehost.driver,
    },
    { provider: 'storage', state: stateOf(storage.ready), account: storage.account ?? '-' },
    ...Object.values(AGENTS).map(({ provider, productName, credentials }) => ({
      provider,
      state: stateOf(credentials.some(({ field }) => (agent[field] ?? '') !== '')),
      account: productName,
    })),
  ]
}

const stateOf = (isConnected: boolean) => (isConnected ? 'connected' : 'not connected')

export interface TokenPage {
  readonly field: CredentialRequestField
  /** Like `the API key of Claude Code`. */
  readonly what: string
  readonly url: string
  readonly rights: string
}

type AccountSettings = Pick<ServiceConfig, 'codehost'> & {
  readonly tracker: Pick<ServiceConfig['tracker'], 'driver'>
}

const AGENT_PAGES = {
  agentA: {
    field: 'agentAApiKey',
    url: 'https://platform.claude.com/settings/keys',
    rights: `none to choose; for a subscription, what "${AGENTS.agentA.loginCommand}" prints`,
  },
  agentB: {
    field: 'agentBApiKey',
    url: 'https://platform.openai.com/api-keys',
    rights: 'model capabilities: write; list models: read',
  },
  agentC: { field: 'agentCApiKey', url: 'https://aistudio.google.com/apikey', rights: 'none to choose' },
} as const

const STORAGE_PAGE: TokenPage = {
  field: 'storageToken',
  what: 'the API token of Cloudflare',
  url: 'https://dash.cloudflare.com/profile/api-tokens',
  rights: 'Workers R2 Storage: edit, and Account Settings: read, of the one account that has the bucket',
}

/** Undefined for a provider that works on a folder, and for tickets that the code host's token reads. */
export function tokenPageOf(provider: CredentialProvider, config: AccountSettings): TokenPage | undefined {
  if (provider === 'codehost') return config.codehost.driver === 'github' ? githubPage(config) : undefined
  if (provider === 'storage') return STORAGE_PAGE
  if (provider !== 'tracker')
    return { ...AGENT_PAGES[provider], what: `the API key of ${AGENTS[provider].productName}` }
  return TRACKER_PAGES[config.tracker.driver]
}

/** Absent where nobody makes a key by hand: the code host has the one for its issues, and a folder needs none. */
const TRACKER_PAGES: Readonly<Record<TrackerDriverName, TokenPage | undefined>> = {
  linear: {
    field: 'trackerApiKey',
    what: 'the personal API key of Linear',
    url: 'https://linear.app/settings/account/security',
    rights: 'read and write, for the teams whose tickets are worked on',
  },
  github: undefined,
  local: undefined,
}

function githubPage({ codehost }: AccountSettings): TokenPage {
  const { apiUrl = GITHUB_API } = codehost
  // A server of one's own has its interface below `/api/v3` of its site.
  const site = apiUrl === GITHUB_API ? 'https://github.com' : new URL(apiUrl).origin
  return {
    field: 'codehostToken',
    what: 'the token of GitHub',
    url: `${site}/settings/tokens/new?scopes=repo&description=switchyard`,
    rights:
      'repo; or a fine-grained token with contents, pull requests and issues (read and write), commit statuses (read)',
  }
}
