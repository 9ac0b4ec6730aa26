/**
 * Writes what people and workers do to the trail of actions, before its answer leaves.
 *
 * Requests that only read are not recorded, and neither is asking again whether a person has given a consent. A request
 * that was refused before its handler has changed nothing.
 */
import { pathsIn, shortenName } from '../core/audit-paths.ts'
import type { AuditTrail } from '../core/ports.ts'
import type { AuditAction } from '../protocol/audit.ts'
import type { Asker, RouteParameters, ServedRoute } from './routes/route-table.ts'

const NOT_RECORDED: readonly ServedRoute['name'][] = ['pollCodehost']
const FAILED = 500

export function recordRoutes(rows: readonly ServedRoute[], trail: AuditTrail): ServedRoute[] {
  return rows.map((row) => (isRecorded(row) ? recorded(row, trail) : row))
}

const isRecorded = ({ method, name }: ServedRoute): boolean =>
  method !== 'GET' && !NOT_RECORDED.includes(name)

function recorded(row: ServedRoute, trail: AuditTrail): ServedRoute {
  return {
    ...row,
    run: async (placed, body, asker) => {
      const record = (status: number) => trail.record({ ...describe(row, placed, body, asker), status })
      try {
        const reply = await row.run(placed, body, asker)
        await record(reply.status)
        return reply
      } catch (error) {
        await record(FAILED)
        throw error
      }
    },
  }
}

function describe(
  { name }: ServedRoute,
  { params, query }: RouteParameters,
  body: unknown,
  asker: Asker | undefined,
): Omit<AuditAction, 'status'> {
  const on = namesIn({ ...Object(query), ...Object(params) })
  const keys = pathsIn(name === 'changeSettings' ? Object(body).patch : body)
  const by = asker?.workerId ?? asker?.joinKeyId
  return {
    source: asker?.source ?? 'api',
    action: name,
    ...(by === undefined ? {} : { by }),
    ...(Object.keys(on).length === 0 ? {} : { on }),
    ...(keys.length === 0 ? {} : { keys }),
  }
}

/** Path and query of these routes name what an action is about: ids, repositories, numbers and states. */
function namesIn(values: object): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(values)
      .filter(([, value]) => typeof value === 'string' || typeof value === 'number')
      .map(([key, value]) => [key, typeof value === 'string' ? shortenName(value) : value]),
  )
}
