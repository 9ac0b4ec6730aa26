/** Compares this machine's clock with the `Date` of each answer that an HTTP client receives anyway. */
import type { Clock } from '../../core/ports.ts'
import type { Http } from '../../providers/http/http-types.ts'

export interface ClockComparison {
  /** The host name of the service. */
  readonly service: string
  /** How far this clock is ahead; negative when it is behind. */
  readonly aheadMs: number
}

/** A `Date` has whole seconds, and the answer takes a while; a second and half the request are no difference. */
export function recordClocks(
  http: Http,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  comparisons: ClockComparison[],
): Http {
  return {
    async send(request) {
      const began = clock.monotonic()
      const reply = await http.send(request)
      const tookMs = clock.monotonic() - began
      const at = reply.ok ? Date.parse(reply.value.headers.date ?? '') : Number.NaN
      if (!Number.isNaN(at))
        comparisons.push({
          service: new URL(request.url).hostname,
          aheadMs: Math.round(clock.now() - tookMs / 2 - (at + 500)),
        })
      return reply
    },
    close: () => http.close(),
  }
}
