/** The words of a refusal tell a person which limit stopped the request, and when requests are sent again. */
import { expect, test } from '@jest/globals'
import { refuseMinuteQuota, refuseStopped } from '../../../providers/http/request-queue.ts'

const AT = '2026-01-01 01:00:00 UTC'
const core = { is: 'stop', until: 0, resource: 'core' } as const

test.each([
  [
    'a service that asked for a pause',
    refuseStopped('Service', { ...core, why: 'rate-limited' }, AT),
    'the rate limit of Service is reached; no request is sent before 2026-01-01 01:00:00 UTC',
  ],
  [
    'an exhausted budget',
    refuseStopped('Service', { ...core, why: 'exhausted', limit: 100, remaining: 0 }, AT),
    'the request budget of Service for this credential is used up: 0 of 100 (core) are left until 2026-01-01 01:00:00 UTC',
  ],
  [
    'an exhausted budget of unknown size',
    refuseStopped('Service', { ...core, why: 'exhausted' }, AT),
    'the request budget of Service for this credential is used up: 0 (core) are left until 2026-01-01 01:00:00 UTC',
  ],
  [
    'a budget whose last part is reserved',
    refuseStopped('Service', { ...core, why: 'reserved', limit: 100, remaining: 20 }, AT),
    "Service: 20 of 100 (core) are left until 2026-01-01 01:00:00 UTC; they are reserved for people's requests",
  ],
  [
    'a used minute quota',
    refuseMinuteQuota('Service', AT),
    'the quota of Service for this minute is used up; try again after 2026-01-01 01:00:00 UTC',
  ],
])('the refusal of %s', (_, refused, message) => {
  expect(refused).toEqual({ ok: false, refusal: { kind: 'unavailable', message } })
})
