/**
 * createTokenClient returns the rate-limited client for token requests to one service.
 *
 * Token services count requests per caller, not per account. So all token requests to one origin share a client, and a
 * stated pause applies to all of them.
 */
import type { Urgency } from '../../core/provider-ports.ts'
import type { ClientPool, RateLimitRules } from '../http/client-types.ts'
import type { Http } from '../http/http-types.ts'

export type TokenClient = Pick<Http, 'send'>

const TOKEN_REQUESTS_MAX = 4

/** @param service the service's name in messages: `Linear` */
export function createTokenClient(clients: ClientPool, service: string, urgency: Urgency): TokenClient {
  const rules: RateLimitRules = {
    name: service,
    resourceOf: () => 'tokens',
    budgets: () => [],
    // Token services report rate limits only in the standard way, which the client knows itself.
    tooManyRequestsMs: () => undefined,
    concurrencyMax: TOKEN_REQUESTS_MAX,
    writeIntervalMs: 0,
  }
  return {
    send: (request) =>
      clients.clientFor(rules, request.url, undefined).send({ ...request, urgency, writes: true }),
  }
}
