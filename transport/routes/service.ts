/** Service and configuration, in the order of the specification's table. */
import type { FrontDesk } from '../../actors/api/host-api.ts'
import type { Meters } from '../../core/ports.ts'
import { json, keptJson, refused, text } from '../reply.ts'
import type { Tally } from '../request-counter.ts'
import type { Handlers } from './route-table.ts'

export interface ServiceParts {
  readonly desk: FrontDesk
  readonly meters: Meters
  readonly openApi: () => object
  /** Everything measured, in the Prometheus text format. */
  readonly metricsText: () => Promise<string> | string
  /** What the doors themselves count. */
  readonly requests: Tally
}

const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type ServiceRoute = 'health' | 'readConfig' | 'changeSettings' | 'readOpenApi' | 'readMetrics'

export function serviceHandlers(parts: ServiceParts): Pick<Handlers, ServiceRoute> {
  const { desk, openApi, metricsText } = parts
  const health = keptJson()
  const config = keptJson()
  const document = keptJson()
  const gather = gatherer(parts)
  return {
    health: () => health(desk.health()),
    readConfig: () => config(desk.config()),
    changeSettings: async ({ body }) => {
      const changed = await desk.changeSettings(body.patch)
      return changed.ok ? json(changed.value) : refused(changed.refusal)
    },
    readOpenApi: () => document(openApi()),
    readMetrics: async () => {
      gather()
      return text(await metricsText(), PROMETHEUS_TYPE)
    },
  }
}

/** Brings the figures that are only worth having when somebody looks. A kind that died out counts 0, not its last. */
function gatherer({ desk, meters, requests }: ServiceParts): () => void {
  const seen = new Set<string>()
  return () => {
    requests.report(meters)
    desk.measure()
    const kinds = desk.actorsByKind()
    for (const kind of kinds.keys()) seen.add(kind)
    for (const kind of seen) meters.gauge('actors', kinds.get(kind) ?? 0, { kind })
  }
}
