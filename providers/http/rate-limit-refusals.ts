/**
 * These functions make the refusals of requests that a rate limit stops. Each message names the service and the instant
 * from which requests are sent again.
 *
 * The caller formats the instants, because it knows the clock.
 */
import { no, type Refused } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { ResourceStop } from './rate-limit-state.ts'

/** @param at the formatted instant at which the stop ends */
export function refuseStopped(
  service: string,
  { why, resource, limit, remaining }: ResourceStop,
  at: string,
): Refused {
  if (why === 'rate-limited')
    return no('unavailable', `the rate limit of ${service} is reached; no request is sent before ${at}`)
  const left = `${remaining ?? 0}${limit === undefined ? '' : ` of ${limit}`} (${printable(resource)})`
  if (why === 'exhausted') {
    return no(
      'unavailable',
      `the request budget of ${service} for this credential is used up: ${left} are left until ${at}`,
    )
  }
  return no(
    'unavailable',
    `${service}: ${left} are left until ${at}; they are reserved for people's requests`,
  )
}

/** @param at the formatted instant from which the quota allows the request */
export function refuseMinuteQuota(service: string, at: string): Refused {
  return no('unavailable', `the quota of ${service} for this minute is used up; try again after ${at}`)
}
