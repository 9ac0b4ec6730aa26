/**
 * Counts answered requests by route and status class.
 *
 * The counts are plain arrays, because every request passes here; the meters receive the differences on demand. Unknown
 * paths share one label, so that clients cannot create arbitrarily many.
 */
import type { Meters } from '../core/ports.ts'
import type { ServedRoute } from './routes/route-table.ts'

export interface RequestCounter {
  count(row: ServedRoute | undefined, status: number): void
  /** Adds what was counted since the last call to the meters. */
  report(meters: Meters): void
}

const CLASSES = 6

export function createRequestCounter(): RequestCounter {
  const counts = new Map<string, number[]>()
  return {
    count(row, status) {
      const name = row?.name ?? 'unknown'
      const own = counts.get(name) ?? new Array<number>(CLASSES).fill(0)
      if (!counts.has(name)) counts.set(name, own)
      const at = Math.floor(status / 100)
      own[at] = (own[at] ?? 0) + 1
    },
    report(meters) {
      for (const [route, own] of counts) {
        for (const [at, by] of own.entries()) {
          if (by > 0) meters.count('http_requests_total', { route, status: `${at}xx` }, by)
          own[at] = 0
        }
      }
    },
  }
}
