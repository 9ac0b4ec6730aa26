/**
 * checkGithub tests whether a GitHub token has the rights that the service needs.
 *
 * GitHub reports the scopes of classic tokens only. A fine-grained token is accepted here, and a missing right shows in
 * the first request that needs it.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { createGithubApi, type GithubAccount, parseReply } from '../github/api.ts'
import { unexpectedReply } from '../github/errors.ts'
import { asInstant, asText } from '../github/fields.ts'
import type { ClientPool } from '../http/client-types.ts'
import type { HttpReply } from '../http/http-types.ts'
import { readField } from '../http/reply-fields.ts'

const SUBJECT = "this token's account"
const NEEDED_SCOPE = 'repo'

/** Returns the account's name for display. */
export async function checkGithub(clients: ClientPool, account: GithubAccount): Promise<Result<string>> {
  if (account.token === '') return no('invalid', 'there is no token to check; give one')
  const api = createGithubApi(account, clients)
  if (!api.ok) return api
  const reply = await api.value.get('/user', 'person')
  const user = parseReply(reply, SUBJECT)
  if (!reply.ok || !user.ok) return user.ok ? unexpectedReply(SUBJECT) : user
  const login = printable(asText(readField(user.value, 'login'), NAME_CHARS_MAX))
  if (login === '') return unexpectedReply(SUBJECT)
  const problem = missingScope(account.token, reply.value)
  if (problem !== undefined) return no('invalid', `the token of ${login} ${problem}`)
  return yes(`${login} on ${new URL(api.value.address.site).host}${expiryText(reply.value)}`)
}

/** Fine-grained tokens and tokens of apps have no scopes; GitHub may report an empty list for them. */
const WITHOUT_SCOPES = /^(github_pat|ghu|ghs)_/

/** Returns the problem of a classic or OAuth token without the needed scope, or undefined. */
function missingScope(token: string | undefined, { headers }: HttpReply): string | undefined {
  if (WITHOUT_SCOPES.test(token ?? '')) return undefined
  const scopes = headers['x-oauth-scopes']?.split(',').map((scope) => scope.trim())
  if (scopes === undefined || scopes.includes(NEEDED_SCOPE)) return undefined
  return `lacks the scope ${NEEDED_SCOPE}; make one that has it, and workflow only if a repository has allowWorkflows`
}

/** GitHub writes the expiry as `2026-12-01 08:00:00 UTC`. */
function expiryText({ headers }: HttpReply): string {
  const header = headers['github-authentication-token-expiration']
  const expiresAt = asInstant(header?.replace(/^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}) UTC$/, '$1T$2Z'))
  return expiresAt === undefined ? '' : `, until ${expiresAt.slice(0, 10)}`
}
