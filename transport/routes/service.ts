/** Service and configuration, in the order of the specification's table. */
import type { HostApi } from '../../actors/api/host-api.ts'
import type { Meters } from '../../core/ports.ts'
import { createCachedJson, json, refusalReply, text } from '../reply.ts'
import type { RequestCounter } from '../request-counter.ts'
import type { Handlers } from './route-table.ts'

export interface ServiceRouteOptions {
  readonly hostApi: HostApi
  readonly meters: Meters
  readonly openApi: () => object
  /** Everything measured, in the Prometheus text format. */
  readonly metricsText: () => Promise<string> | string
  /** What the doors themselves count. */
  readonly requestCounter: RequestCounter
}

const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type ServiceRoute = 'health' | 'readConfig' | 'changeSettings' | 'readOpenApi' | 'readMetrics'

export function serviceHandlers(parts: ServiceRouteOptions): Pick<Handlers, ServiceRoute> {
  const { hostApi, openApi, metricsText } = parts
  const health = createCachedJson()
  const config = createCachedJson()
  const document = createCachedJson()
  const gather = createGaugeUpdater(parts)
  return {
    health: () => health(hostApi.health()),
    readConfig: () => config(hostApi.config()),
    changeSettings: async ({ body }) => {
      const changed = await hostApi.changeSettings(body.patch)
      return changed.ok ? json(changed.value) : refusalReply(changed.refusal)
    },
    readOpenApi: () => document(openApi()),
    readMetrics: async () => {
      gather()
      return text(await metricsText(), PROMETHEUS_TYPE)
    },
  }
}

/** Brings the figures that are only worth having when somebody looks. A kind that died out counts 0, not its last. */
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
