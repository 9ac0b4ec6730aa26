/**
 * Counts answered requests by route and status class.
 *
 * The counts are plain arrays, because every request passes here; the meters receive the differences on demand. Unknown
 * paths share one label, so that clients cannot create arbitrarily many.
 */
import type { Meters } from '../core/ports/log.ts'
import type { ServedRoute } from './routes/route-table.ts'

export interface RequestCounter {
  count(row: ServedRoute | undefined, status: number): void
  /** Adds what was counted since the last call to the meters. */
  report(meters: Meters): void
}

const CLASSES = 6

export function createRequestCounter(): RequestCounter {
  const counts = new Map<ServedRoute | undefined, number[]>()
  return {
    count(row, status) {
      const own = counts.get(row) ?? new Array<number>(CLASSES).fill(0)
      if (!counts.has(row)) counts.set(row, own)
      const at = Math.floor(status / 100)
      own[at] = (own[at] ?? 0) + 1
    },
    report(meters) {
      for (const [row, own] of counts) {
        for (const [at, by] of own.entries()) {
          if (by > 0)
            meters.count('http_requests_total', { route: row?.name ?? 'unknown', status: `${at}xx` }, by)
          own[at] = 0
        }
      }
    },
  }
}
