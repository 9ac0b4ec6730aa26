/** OAuth endpoints over HTTP, with their faults. */
import type { LinearAccounts } from './accounts.ts'
import type { TokenFault } from './faults.ts'
import { formOf, type HttpExchange, html, OUTAGE_STATUS } from './http-exchange.ts'
import { authorize, failure, type OauthAnswer, revokeAnswer, type TokenAnswer, tokenAnswer } from './oauth.ts'
import type { UserRow } from './rows.ts'

/** The address holds the decision, as if the person had clicked it. */
export function authorizePage(accounts: LinearAccounts, { url }: HttpExchange, user: UserRow): OauthAnswer {
  const decision = (['approve', 'refuse'] as const).find((name) => url.searchParams.get(name) === '1')
  return authorize(accounts, url, user, decision)
}

export function grantOf(visit: HttpExchange): string {
  return formOf(visit)?.get('grant_type') ?? 'none'
}

/** A slow, cut or reset reply has issued its tokens all the same. */
export function tokensFor(
  accounts: LinearAccounts,
  visit: HttpExchange,
  now: number,
  fault: TokenFault | undefined,
): TokenAnswer {
  if (fault?.kind === 'oauth')
    return failure(fault.status ?? 400, fault.error, fault.description ?? fault.error)
  if (fault?.kind === 'too-many') return failure(429, 'rate_limited', 'Too many requests')
  if (fault?.kind === 'html') return html(fault.status ?? OUTAGE_STATUS)
  const form = formOf(visit)
  if (form === undefined)
    return failure(400, 'invalid_request', 'The body must be application/x-www-form-urlencoded')
  const { authorization } = visit.request.headers
  return tokenAnswer(accounts, { form, authorization, now, keepsToken: fault?.kind === 'no-refresh-token' })
}

export function revocation(accounts: LinearAccounts, visit: HttpExchange): OauthAnswer {
  return revokeAnswer(accounts, formOf(visit) ?? new Map(), visit.request.headers.authorization)
}
