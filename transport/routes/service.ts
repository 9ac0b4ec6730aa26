/** Routes of service and configuration, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Meters } from '../../core/ports/log.ts'
import type { Refusal } from '../../core/result.ts'
import { UNFINISHED } from '../../core/run/run-transitions.ts'
import { LIST_LIMIT_MAX } from '../../protocol/limits.ts'
import type { StatusResponse } from '../../protocol/routes.ts'
import { createCachedJson, json, type Reply, refusalReply, resultReply, text } from '../reply.ts'
import type { RequestCounter } from '../request-counter.ts'
import type { Handlers } from './route-table.ts'

export interface ServiceRouteOptions {
  readonly hostApi: HostApi
  readonly meters: Meters
  readonly openApi: () => object
  /** All metrics in the Prometheus text format. */
  readonly metricsText: () => Promise<string> | string
  /** The request counts of the listeners. */
  readonly requestCounter: RequestCounter
}

const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const STORE_BROKEN: Refusal = {
  kind: 'unavailable',
  message: 'the database is broken or lost, and the service is stopping; its log says why',
}

type ServiceRoute =
  | 'health'
  | 'readStatus'
  | 'readConfig'
  | 'changeSettings'
  | 'pauseDispatch'
  | 'resumeDispatch'
  | 'readOpenApi'
  | 'readMetrics'

export function serviceHandlers(options: ServiceRouteOptions): Pick<Handlers, ServiceRoute> {
  const { hostApi, openApi, metricsText } = options
  const health = createCachedJson()
  const config = createCachedJson()
  const document = createCachedJson()
  const gather = createGaugeUpdater(options)
  return {
    // The route needs no token, so the reason, which may contain paths, is only logged.
    health: () =>
      hostApi.storeState().is === 'broken' ? refusalReply(STORE_BROKEN) : health(hostApi.health()),
    readStatus: () => statusReply(hostApi),
    readConfig: () => config(hostApi.config()),
    changeSettings: async ({ body }) => {
      const changed = await hostApi.changeSettings(body.patch, body.confirm)
      return changed.ok ? json(changed.value) : refusalReply(changed.refusal)
    },
    pauseDispatch: async () => resultReply(await hostApi.setPaused(true)),
    resumeDispatch: async () => resultReply(await hostApi.setPaused(false)),
    readOpenApi: () => document(openApi()),
    readMetrics: async () => {
      gather()
      return text(await metricsText(), PROMETHEUS_TYPE)
    },
  }
}

function statusReply(hostApi: HostApi): Reply {
  if (hostApi.storeState().is === 'broken') return refusalReply(STORE_BROKEN)
  const listed = hostApi.runs({ status: UNFINISHED, limit: LIST_LIMIT_MAX })
  if (!listed.ok) return refusalReply(listed.refusal)
  return json({
    health: hostApi.health(),
    tracker: hostApi.trackerStatus(),
    paused: hostApi.config().policy.paused === true,
    workers: hostApi.fleet().workers,
    runs: [...listed.value.runs],
    attention: hostApi.attention().items,
  } satisfies StatusResponse)
}

/** Updates the gauges that are computed only on demand. A kind without actors is reported as 0. */
function createGaugeUpdater({ hostApi, meters, requestCounter: requests }: ServiceRouteOptions): () => void {
  const seen = new Set<string>()
  return () => {
    requests.report(meters)
    hostApi.updateGauges()
    const kinds = hostApi.actorsByKind()
    for (const kind of kinds.keys()) seen.add(kind)
    for (const kind of seen) meters.gauge('actors', kinds.get(kind) ?? 0, { kind })
  }
}
