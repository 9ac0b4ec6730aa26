/** Which tracker a configuration asks for. */
import type { Clock, Log, Tracker } from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ClientPool } from '../http/client-types.ts'
import { githubTracker } from './github.ts'
import { githubTrackerAccount } from './github-account.ts'
import { linearPlace } from './linear/endpoint.ts'
import { linearManners } from './linear/rate-limits.ts'
import { linearTracker } from './linear.ts'
import { localTracker } from './local.ts'

export interface TrackerPorts {
  readonly clock: Clock
  readonly log: Log
  readonly couriers: ClientPool
}

/** undefined: none is configured, or it is not connected. */
export function trackerFor(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  const { driver, path } = config.tracker
  if (driver === 'linear') return linearFor(config.tracker, ports)
  if (driver === 'github') return githubFor(config, ports)
  return driver === 'local' && path !== undefined ? localTracker({ ...ports, path }) : undefined
}

function githubFor(config: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  if (githubTrackerAccount(config) === undefined) return undefined
  return githubTracker({ ...ports, config })
}

function linearFor({ apiKey, apiUrl }: ServiceConfig['tracker'], ports: TrackerPorts): Tracker | undefined {
  if (apiKey === undefined || apiKey === '') return undefined
  const place = linearPlace(apiUrl)
  // A configuration with such an address is refused before it gets here.
  if (!place.ok) return undefined
  const courier = ports.couriers.clientFor(linearManners, place.value.origin, apiKey)
  return linearTracker({ ...ports, courier, place: place.value, credential: apiKey })
}
