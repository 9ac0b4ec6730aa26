/**
 * Whether a GitHub token is good for what the service does with it.
 *
 * GitHub tells what a classic token may do, and of a fine-grained one only when it lacks something: that one is believed
 * until then.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { NAME_CHARS_MAX } from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { createGithubApi, type GithubAccount, parseReply } from '../codehost/github/api.ts'
import { unexpectedReply } from '../codehost/github/errors.ts'
import { asInstant, asText, readField } from '../codehost/github/fields.ts'
import type { ClientPool } from '../http/client-types.ts'
import type { HttpReply } from '../http/http.ts'

const SUBJECT = "this token's account"
const NEEDED_SCOPE = 'repo'

/** Answers whose token it is, for people. */
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

/** Fine-grained tokens and those of apps, which may be told an empty list. */
const WITHOUT_SCOPES = /^(github_pat|ghu|ghs)_/

/** Only classic tokens, and those of OAuth, have scopes. */
function missingScope(token: string | undefined, { headers }: HttpReply): string | undefined {
  if (WITHOUT_SCOPES.test(token ?? '')) return undefined
  const scopes = headers['x-oauth-scopes']?.split(',').map((scope) => scope.trim())
  if (scopes === undefined || scopes.includes(NEEDED_SCOPE)) return undefined
  return `lacks the scope ${NEEDED_SCOPE}; make one that has it, and workflow if workflows are to be changed`
}

/** GitHub writes it as `2026-12-01 08:00:00 UTC`. */
function expiryText({ headers }: HttpReply): string {
  const header = headers['github-authentication-token-expiration']
  const expiresAt = asInstant(header?.replace(/^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}) UTC$/, '$1T$2Z'))
  return expiresAt === undefined ? '' : `, until ${expiresAt.slice(0, 10)}`
}
