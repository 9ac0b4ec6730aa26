/** The driver of Linear. */
import type { Tracker } from '../../../core/ports/tracker.ts'
import { type Result, yes } from '../../../core/result.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { authorizeLinear, checkLinear, exchangeLinear, refreshLinear } from '../../accounts/linear-oauth.ts'
import type { ClientPool } from '../../http/client-types.ts'
import type { TrackerDriver, TrackerPorts } from '../tracker-driver.ts'
import { LINEAR_RATE_LIMITS, parseLinearEndpoint } from './rate-limits.ts'
import { createLinearTracker } from './tracker.ts'

export const linearTrackerDriver: TrackerDriver = {
  create,
  checkAccount,
  consent: yes({
    serviceName: 'Linear',
    adviceWithoutHelper:
      'give an API key of Linear (Settings, Security & access), set connect.trackerClientId to an application of your own',
    authorize: authorizeLinear,
    exchange: exchangeLinear,
    refresh: refreshLinear,
  }),
}

function create({ tracker }: ServiceConfig, ports: TrackerPorts): Tracker | undefined {
  const { apiKey, apiUrl } = tracker
  if (apiKey === undefined || apiKey === '') return undefined
  const endpoint = parseLinearEndpoint(apiUrl)
  // Validation already refused a configuration with an invalid address.
  if (!endpoint.ok) return undefined
  const httpClient = ports.clients.clientFor(LINEAR_RATE_LIMITS, endpoint.value.origin, apiKey)
  return createLinearTracker({ ...ports, httpClient, endpoint: endpoint.value, credential: apiKey })
}

async function checkAccount(config: ServiceConfig, clients: ClientPool): Promise<Result<string>> {
  const { apiKey = '', apiUrl } = config.tracker
  const endpoint = parseLinearEndpoint(apiUrl)
  if (!endpoint.ok) return endpoint
  // The tracker uses the same client, so both share one budget.
  return checkLinear(clients.clientFor(LINEAR_RATE_LIMITS, endpoint.value.origin, apiKey), config)
}
