/**
 * createAccounts implements the accounts port: it connects to all providers that issue credentials.
 *
 * Requests go to the OAuth helper when the settings contain no client id for a provider, and to the provider itself
 * otherwise. Local drivers use a folder on this machine, need no account, and are refused with that reason.
 */

import type { Clock, RandomSource } from '../../core/ports.ts'
import type { Accounts, Urgency } from '../../core/provider-ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { resolveGithubAccount } from '../tracker/github/account.ts'
import { parseLinearEndpoint } from '../tracker/linear/endpoint.ts'
import { LINEAR_RATE_LIMITS } from '../tracker/linear/rate-limits.ts'
import type { AgentLoginSearchPorts } from './agents/agent-account.ts'
import { AGENT_ACCOUNTS } from './agents/registry.ts'
import { pollOwnDevice, startOwnDevice } from './device.ts'
import { checkGithub } from './github.ts'
import { authorizeLinear, checkLinear, exchangeLinear, refreshLinear } from './linear-oauth.ts'
import { createHelperClient, type HelperClient } from './oauth-helper.ts'
import { createTokenClient } from './token-request.ts'

export interface AccountsPorts extends AgentLoginSearchPorts {
  readonly clients: ClientPool
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'bytes'>
  /** Replaces the helper address of this build. */
  readonly helperBaseUrl?: string
}

export function createAccounts(ports: AccountsPorts): Accounts {
  return { ...trackerAccounts(ports), ...codehostAccounts(ports), ...agentAccounts(ports) }
}

type TrackerAccounts = Pick<
  Accounts,
  'authorizeTracker' | 'exchangeTrackerCode' | 'refreshTrackerToken' | 'checkTracker'
>
type CodehostAccounts = Pick<Accounts, 'startDevice' | 'pollDevice' | 'checkCodehost'>
type AgentAccounts = Pick<Accounts, 'checkAgent' | 'findAgentLogin'>

// ---- the tracker ---------------------------------------------------------------------------------------------------

const TRACKER_WITHOUT_HELPER =
  'give an API key of Linear (Settings, Security & access), set connect.trackerClientId to an application of your own'

function trackerAccounts(ports: AccountsPorts): TrackerAccounts {
  const { clients, clock, random } = ports
  const helper = (config: ServiceConfig, urgency: Urgency): Result<HelperClient> => {
    const http = createTokenClient(clients, 'the OAuth helper', urgency)
    return createHelperClient(config, TRACKER_WITHOUT_HELPER, { http, clock }, ports.helperBaseUrl)
  }
  return {
    authorizeTracker(config, order) {
      const refusal = consentRefusal(config)
      if (refusal !== undefined) return refusal
      if (hasOwnTrackerClient(config)) return authorizeLinear(config, order, random)
      const client = helper(config, 'person')
      return client.ok ? { ok: true, value: client.value.authorize(order) } : client
    },
    async exchangeTrackerCode(config, order) {
      const refusal = consentRefusal(config)
      if (refusal !== undefined) return refusal
      const http = createTokenClient(clients, 'Linear', 'person')
      if (hasOwnTrackerClient(config)) return exchangeLinear(http, clock, config, order)
      const client = helper(config, 'person')
      return client.ok ? client.value.exchange({ code: order.code, port: order.port }) : client
    },
    async refreshTrackerToken(config, refreshToken) {
      const refusal = consentRefusal(config)
      if (refusal !== undefined) return refusal
      const http = createTokenClient(clients, 'Linear', 'background')
      if (hasOwnTrackerClient(config)) return refreshLinear(http, clock, config, refreshToken)
      const client = helper(config, 'background')
      return client.ok ? client.value.refresh(refreshToken) : client
    },
    checkTracker: (config) => checkTracker(config, ports),
  }
}

const hasOwnTrackerClient = ({ connect }: ServiceConfig): boolean => (connect.trackerClientId ?? '') !== ''

/** Returns why this tracker has no consent page, or undefined for a tracker that has one. */
function consentRefusal({ tracker: { driver } }: ServiceConfig) {
  if (driver === 'linear') return undefined
  return driver === 'local'
    ? LOCAL_TRACKER_REFUSAL
    : no(
        'invalid',
        'issues of GitHub are read with a token: give one, or connect the code host, whose token does',
      )
}

const LOCAL_TRACKER_REFUSAL = no('invalid', 'the tracker is a folder on this machine, which needs no account')

const NO_TOKEN = no('invalid', 'there is no token to check; give one')

async function checkTracker(config: ServiceConfig, { clients }: AccountsPorts): Promise<Result<string>> {
  const { driver, apiKey = '', apiUrl } = config.tracker
  if (driver === 'local') return LOCAL_TRACKER_REFUSAL
  if (driver === 'github') {
    const account = resolveGithubAccount(config)
    return account === undefined ? NO_TOKEN : checkGithub(clients, account)
  }
  const endpoint = parseLinearEndpoint(apiUrl)
  if (!endpoint.ok) return endpoint
  // The tracker driver uses the same client, so both share one budget.
  const client = clients.clientFor(LINEAR_RATE_LIMITS, endpoint.value.origin, apiKey)
  return checkLinear(client, config)
}

// ---- the code host -------------------------------------------------------------------------------------------------

const CODEHOST_WITHOUT_HELPER =
  'give a token of GitHub, set connect.codehostClientId to an application of your own with Device Flow enabled'
const LOCAL_CODEHOST_REFUSAL = no(
  'invalid',
  'the code host is a folder on this machine, which needs no account',
)

function codehostAccounts(ports: AccountsPorts): CodehostAccounts {
  const { http, clock, clients } = ports
  const helper = (config: ServiceConfig): Result<HelperClient> =>
    createHelperClient(config, CODEHOST_WITHOUT_HELPER, ports, ports.helperBaseUrl)
  return {
    async startDevice(config) {
      if (config.codehost.driver === 'local') return LOCAL_CODEHOST_REFUSAL
      if (hasOwnCodehostClient(config)) return startOwnDevice(http, clock, config)
      const client = helper(config)
      return client.ok ? client.value.startDevice() : client
    },
    async pollDevice(config, deviceCode) {
      if (config.codehost.driver === 'local') return LOCAL_CODEHOST_REFUSAL
      if (hasOwnCodehostClient(config)) return pollOwnDevice(http, clock, config, deviceCode)
      const client = helper(config)
      return client.ok ? client.value.pollDevice(deviceCode) : client
    },
    async checkCodehost({ codehost: { driver, apiUrl, token = '' } }) {
      return driver === 'local'
        ? LOCAL_CODEHOST_REFUSAL
        : checkGithub(clients, { apiUrl, token, apiUrlField: 'codehost.apiUrl' })
    },
  }
}

const hasOwnCodehostClient = ({ connect }: ServiceConfig): boolean => (connect.codehostClientId ?? '') !== ''

// ---- agents --------------------------------------------------------------------------------------------------------

function agentAccounts(ports: AccountsPorts): AgentAccounts {
  return {
    checkAgent: ({ agent }, provider) => AGENT_ACCOUNTS[provider].check(agent, ports),
    findAgentLogin: (provider) => AGENT_ACCOUNTS[provider].findLogin(ports),
  }
}
