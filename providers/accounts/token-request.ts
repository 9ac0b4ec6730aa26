/**
 * Asking those who give out tokens, whoever wants one: told to come later, nobody comes before.
 *
 * They count who asks and not for whom, so there is one courier for each place.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { ClientPool, RateLimitRules } from '../http/client-types.ts'
import type { Http } from '../http/http.ts'

export type TokenClient = Pick<Http, 'send'>

const TOKEN_REQUESTS_MAX = 4

/** @param service as people know it: `Linear` */
export function createTokenClient(clients: ClientPool, service: string, urgency: Urgency): TokenClient {
  const rules: RateLimitRules = {
    name: service,
    resourceOf: () => 'tokens',
    budgets: () => [],
    // What everybody understands is all that they say.
    tooManyRequestsMs: () => undefined,
    concurrencyMax: TOKEN_REQUESTS_MAX,
    writeIntervalMs: 0,
  }
  return {
    send: (request) =>
      clients.clientFor(rules, request.url, undefined).send({ ...request, urgency, writes: true }),
  }
}
