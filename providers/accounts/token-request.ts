/**
 * Asking those who give out tokens, whoever wants one: told to come later, nobody comes before.
 *
 * They count who asks and not for whom, so there is one courier for each place.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { ClientPool, RateLimitRules } from '../http/client-types.ts'
import type { Http } from '../http/http.ts'

export type TokenDoor = Pick<Http, 'send'>

const AT_ONCE = 4

/** @param who as people know it: `Linear` */
export function tokenDoor(couriers: ClientPool, who: string, urgency: Urgency): TokenDoor {
  const rules: RateLimitRules = {
    name: who,
    resourceOf: () => 'tokens',
    budgets: () => [],
    // What everybody understands is all that they say.
    tooManyRequestsMs: () => undefined,
    concurrencyMax: AT_ONCE,
    writeIntervalMs: 0,
  }
  return {
    send: (request) =>
      couriers.clientFor(rules, request.url, undefined).send({ ...request, urgency, writes: true }),
  }
}
