/**
 * createAccounts implements the accounts port: it connects to all providers that issue credentials.
 *
 * Requests go to the OAuth helper when the settings contain no client id for a provider, and to the provider itself
 * otherwise. Local drivers use a folder on this machine, need no account, and are refused with that reason.
 */

import type { Accounts } from '../../core/ports/accounts.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import type { Urgency } from '../../core/ports/code-host.ts'
import type { Result } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { CodeHostDeviceFlow, CodeHostDriver } from '../codehost/code-host-driver.ts'
import { CODE_HOST_REGISTRY } from '../codehost/registry.ts'
import type { ClientPool } from '../http/client-types.ts'
import { TRACKER_REGISTRY } from '../tracker/registry.ts'
import type { TrackerConsent, TrackerDriver } from '../tracker/tracker-driver.ts'
import type { AgentLoginSearchPorts } from './agents/agent-account.ts'
import { AGENT_ACCOUNTS } from './agents/registry.ts'
import { createHelperClient, type HelperClient } from './oauth-helper.ts'
import { createTokenClient } from './reply-fields.ts'

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

function trackerAccounts({ clients, clock, random, helperBaseUrl }: AccountsPorts): TrackerAccounts {
  const helper = (
    config: ServiceConfig,
    { adviceWithoutHelper }: TrackerConsent,
    urgency: Urgency,
  ): Result<HelperClient> => {
    const http = createTokenClient(clients, 'the OAuth helper', urgency)
    return createHelperClient(config, adviceWithoutHelper, { http, clock }, helperBaseUrl)
  }
  return {
    authorizeTracker(config, order) {
      const consent = trackerOf(config).consent
      if (!consent.ok) return consent
      if (hasOwnTrackerClient(config)) return consent.value.authorize(config, order, random)
      const client = helper(config, consent.value, 'person')
      return client.ok ? { ok: true, value: client.value.authorize(order) } : client
    },
    async exchangeTrackerCode(config, order) {
      const consent = trackerOf(config).consent
      if (!consent.ok) return consent
      const http = createTokenClient(clients, consent.value.serviceName, 'person')
      if (hasOwnTrackerClient(config)) return consent.value.exchange(http, clock, config, order)
      const client = helper(config, consent.value, 'person')
      return client.ok ? client.value.exchange({ code: order.code, port: order.port }) : client
    },
    async refreshTrackerToken(config, refreshToken) {
      const consent = trackerOf(config).consent
      if (!consent.ok) return consent
      const http = createTokenClient(clients, consent.value.serviceName, 'background')
      if (hasOwnTrackerClient(config)) return consent.value.refresh(http, clock, config, refreshToken)
      const client = helper(config, consent.value, 'background')
      return client.ok ? client.value.refresh(refreshToken) : client
    },
    checkTracker: (config) => trackerOf(config).checkAccount(config, clients),
  }
}

const trackerOf = ({ tracker }: ServiceConfig): TrackerDriver => TRACKER_REGISTRY[tracker.driver]

const hasOwnTrackerClient = ({ connect }: ServiceConfig): boolean => (connect.trackerClientId ?? '') !== ''

// ---- the code host -------------------------------------------------------------------------------------------------

function codehostAccounts(ports: AccountsPorts): CodehostAccounts {
  const { http, clock, clients } = ports
  const helper = (config: ServiceConfig, { adviceWithoutHelper }: CodeHostDeviceFlow): Result<HelperClient> =>
    createHelperClient(config, adviceWithoutHelper, ports, ports.helperBaseUrl)
  return {
    async startDevice(config) {
      const flow = codeHostOf(config).deviceFlow
      if (!flow.ok) return flow
      if (hasOwnCodehostClient(config)) return flow.value.start(http, clock, config)
      const client = helper(config, flow.value)
      return client.ok ? client.value.startDevice() : client
    },
    async pollDevice(config, deviceCode) {
      const flow = codeHostOf(config).deviceFlow
      if (!flow.ok) return flow
      if (hasOwnCodehostClient(config)) return flow.value.poll(http, clock, config, deviceCode)
      const client = helper(config, flow.value)
      return client.ok ? client.value.pollDevice(deviceCode) : client
    },
    checkCodehost: (config) => codeHostOf(config).checkAccount(config.codehost, clients),
  }
}

const codeHostOf = ({ codehost }: ServiceConfig): CodeHostDriver => CODE_HOST_REGISTRY[codehost.driver]

const hasOwnCodehostClient = ({ connect }: ServiceConfig): boolean => (connect.codehostClientId ?? '') !== ''

// ---- agents --------------------------------------------------------------------------------------------------------

function agentAccounts(ports: AccountsPorts): AgentAccounts {
  return {
    checkAgent: ({ agent }, provider) => AGENT_ACCOUNTS[provider].check(agent, ports),
    findAgentLogin: (provider) => AGENT_ACCOUNTS[provider].findLogin(ports),
  }
}
