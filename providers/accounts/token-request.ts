/**
 * Asking those who give out tokens, whoever wants one: told to come later, nobody comes before.
 *
 * They count who asks and not for whom, so there is one courier for each place.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { Couriers, Manners } from '../http/client-types.ts'
import type { Http } from '../http/http.ts'

export type TokenDoor = Pick<Http, 'ask'>

const AT_ONCE = 4

/** @param who as people know it: `Linear` */
export function tokenDoor(couriers: Couriers, who: string, urgency: Urgency): TokenDoor {
  const manners: Manners = {
    name: who,
    resourceOf: () => 'tokens',
    budgets: () => [],
    // What everybody understands is all that they say.
    tooOften: () => undefined,
    atOnce: AT_ONCE,
    writePauseMs: 0,
  }
  return {
    ask: (request) =>
      couriers.courier(manners, request.url, undefined).ask({ ...request, urgency, writes: true }),
  }
}
