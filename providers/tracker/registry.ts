/** Creates the tracker that the configuration names. */
import type { Clock, Log, Tracker } from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { resolveGithubAccount } from './github/account.ts'
import { createGithubTracker } from './github/tracker.ts'
import { parseLinearEndpoint } from './linear/endpoint.ts'
import { LINEAR_RATE_LIMITS } from './linear/rate-limits.ts'
import { createLinearTracker } from './linear/tracker.ts'
import { createLocalTracker } from './local/tracker.ts'

export interface TrackerPorts {
  readonly clock: Clock
  readonly log: Log
  readonly clients: ClientPool
}

/** Undefined when no tracker is configured or connected. */
export function createTracker(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  const { driver, path } = config.tracker
  if (driver === 'linear') return createLinear(config.tracker, ports)
  if (driver === 'github') return createGithub(config, ports)
  return driver === 'local' && path !== undefined ? createLocalTracker({ ...ports, path }) : undefined
}

function createGithub(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  if (resolveGithubAccount(config) === undefined) return undefined
  return createGithubTracker({ ...ports, config })
}

function createLinear(
  { apiKey, apiUrl }: ServiceConfig['tracker'],
  ports: TrackerPorts,
): Tracker | undefined {
  if (apiKey === undefined || apiKey === '') return undefined
  const endpoint = parseLinearEndpoint(apiUrl)
  // Validation already refused a configuration with an invalid address.
  if (!endpoint.ok) return undefined
  const httpClient = ports.clients.clientFor(LINEAR_RATE_LIMITS, endpoint.value.origin, apiKey)
  return createLinearTracker({ ...ports, httpClient, endpoint: endpoint.value, credential: apiKey })
}
