/**
 * Everybody who gives out credentials, behind one port.
 *
 * The public helper is asked exactly when the person has no client id of his own for a provider; with one, the provider
 * is asked itself. What is no more than a folder on this machine needs no account, and says so.
 */

import type { Clock, RandomSource } from '../../core/ports.ts'
import type { Accounts, Urgency } from '../../core/provider-ports.ts'
import { no, type Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { githubTrackerAccount } from '../tracker/github-account.ts'
import { linearPlace } from '../tracker/linear/endpoint.ts'
import { linearManners } from '../tracker/linear/rate-limits.ts'
import { findAgentLogin, type LoginsParts } from './agent-logins.ts'
import { checkAgent } from './agents.ts'
import { pollOwnDevice, startOwnDevice } from './device.ts'
import { checkGithub } from './github.ts'
import { authorizeLinear, checkLinear, exchangeLinear, refreshLinear } from './linear-oauth.ts'
import { type HelperClient, helperFor } from './oauth-helper.ts'
import { tokenDoor } from './token-request.ts'

export interface AccountsParts extends LoginsParts {
  readonly couriers: ClientPool
  readonly clock: Clock
  readonly random: Pick<RandomSource, 'bytes'>
  /** In place of this build's own. */
  readonly helperBase?: string
}

export function makeAccounts(parts: AccountsParts): Accounts {
  return { ...trackerAccounts(parts), ...codehostAccounts(parts), ...agentAccounts(parts) }
}

type TrackerAccounts = Pick<
  Accounts,
  'authorizeTracker' | 'exchangeTracker' | 'refreshTracker' | 'checkTracker'
>
type CodehostAccounts = Pick<Accounts, 'startDevice' | 'pollDevice' | 'checkCodehost'>
type AgentAccounts = Pick<Accounts, 'checkAgent' | 'findAgentLogin'>

// ---- the tracker ---------------------------------------------------------------------------------------------------

const TRACKER_BY_HAND =
  'give an API key of Linear (Settings, Security & access), set connect.trackerClientId to an application of your own'

function trackerAccounts(parts: AccountsParts): TrackerAccounts {
  const { couriers, clock, random } = parts
  const helper = (config: ServiceConfig, urgency: Urgency): Result<HelperClient> => {
    const http = tokenDoor(couriers, 'the OAuth helper', urgency)
    return helperFor(config, TRACKER_BY_HAND, { http, clock }, parts.helperBase)
  }
  return {
    authorizeTracker(config, order) {
      const folder = withoutConsent(config)
      if (folder !== undefined) return folder
      if (hasOwnTrackerClient(config)) return authorizeLinear(config, order, random)
      const client = helper(config, 'person')
      return client.ok ? { ok: true, value: client.value.authorize(order) } : client
    },
    async exchangeTracker(config, order) {
      const folder = withoutConsent(config)
      if (folder !== undefined) return folder
      const http = tokenDoor(couriers, 'Linear', 'person')
      if (hasOwnTrackerClient(config)) return exchangeLinear(http, clock, config, order)
      const client = helper(config, 'person')
      return client.ok ? client.value.exchange({ code: order.code, port: order.port }) : client
    },
    async refreshTracker(config, refreshToken) {
      const folder = withoutConsent(config)
      if (folder !== undefined) return folder
      const http = tokenDoor(couriers, 'Linear', 'background')
      if (hasOwnTrackerClient(config)) return refreshLinear(http, clock, config, refreshToken)
      const client = helper(config, 'background')
      return client.ok ? client.value.refresh(refreshToken) : client
    },
    checkTracker: (config) => checkTracker(config, parts),
  }
}

const hasOwnTrackerClient = ({ connect }: ServiceConfig): boolean => (connect.trackerClientId ?? '') !== ''

/** Trackers that nobody connects through a consent page. */
function withoutConsent({ tracker: { driver } }: ServiceConfig) {
  if (driver === 'linear') return undefined
  return driver === 'local'
    ? LOCAL_TRACKER
    : no(
        'invalid',
        'issues of GitHub are read with a token: give one, or connect the code host, whose token does',
      )
}

const LOCAL_TRACKER = no('invalid', 'the tracker is a folder on this machine, which needs no account')

const NO_TOKEN = no('invalid', 'there is no token to check; give one')

async function checkTracker(config: ServiceConfig, { couriers }: AccountsParts): Promise<Result<string>> {
  const { driver, apiKey = '', apiUrl } = config.tracker
  if (driver === 'local') return LOCAL_TRACKER
  if (driver === 'github') {
    const account = githubTrackerAccount(config)
    return account === undefined ? NO_TOKEN : checkGithub(couriers, account)
  }
  const place = linearPlace(apiUrl)
  if (!place.ok) return place
  // The very courier that the tracker itself asks through, so that both share one budget.
  const courier = couriers.clientFor(linearManners, place.value.origin, apiKey)
  return checkLinear(courier, config)
}

// ---- the code host -------------------------------------------------------------------------------------------------

const CODEHOST_BY_HAND =
  'give a token of GitHub, set connect.codehostClientId to an application of your own with Device Flow enabled'
const LOCAL_CODEHOST = no('invalid', 'the code host is a folder on this machine, which needs no account')

function codehostAccounts(parts: AccountsParts): CodehostAccounts {
  const { http, clock, couriers } = parts
  const helper = (config: ServiceConfig): Result<HelperClient> =>
    helperFor(config, CODEHOST_BY_HAND, parts, parts.helperBase)
  return {
    async startDevice(config) {
      if (config.codehost.driver === 'local') return LOCAL_CODEHOST
      if (hasOwnCodehostClient(config)) return startOwnDevice(http, clock, config)
      const client = helper(config)
      return client.ok ? client.value.startDevice() : client
    },
    async pollDevice(config, deviceCode) {
      if (config.codehost.driver === 'local') return LOCAL_CODEHOST
      if (hasOwnCodehostClient(config)) return pollOwnDevice(http, clock, config, deviceCode)
      const client = helper(config)
      return client.ok ? client.value.pollDevice(deviceCode) : client
    },
    async checkCodehost({ codehost: { driver, apiUrl, token = '' } }) {
      return driver === 'local'
        ? LOCAL_CODEHOST
        : checkGithub(couriers, { apiUrl, token, field: 'codehost.apiUrl' })
    },
  }
}

const hasOwnCodehostClient = ({ connect }: ServiceConfig): boolean => (connect.codehostClientId ?? '') !== ''

// ---- agents --------------------------------------------------------------------------------------------------------

function agentAccounts(parts: AccountsParts): AgentAccounts {
  return {
    checkAgent: (config, provider) => checkAgent(config, provider, parts),
    findAgentLogin: (provider) => findAgentLogin(provider, parts),
  }
}
