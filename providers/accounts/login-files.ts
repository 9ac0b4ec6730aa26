/**
 * These functions read the files in which agents keep their owner's login, and decide what another machine may use.
 *
 * Only the form is verified. A name or plan inside a token is an unverified claim and is used for display only.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { LOGIN_LEFT_MS_MIN } from '../../protocol/limits.ts'
import { asFields, fieldsIn, isCredential, quoted, type ReplyFields, textAt } from './reply-fields.ts'

// ---- Claude Code ---------------------------------------------------------------------------------------------------

export interface ClaudeCodeLogin {
  readonly token: string
  readonly detail: string
}

/**
 * Takes the access token only. The refresh token stays with its owner, because two programs that refresh one login lock
 * each other out. So the access token must last for a while; `claude setup-token` makes one that lasts.
 */
export function readClaudeLogin(text: string, now: number): Result<ClaudeCodeLogin> {
  const login = asFields(fieldsIn(text)?.claudeAiOauth)
  const token = textAt(login, 'accessToken')
  if (!isCredential(token)) return no('invalid', 'its file holds no login')
  const expiresAt = login?.expiresAt
  const isInstant = typeof expiresAt === 'number' && Math.abs(expiresAt) <= INSTANT_MAX
  if (!isInstant) return no('invalid', 'its file does not state when the login expires')
  if (expiresAt - now < LOGIN_LEFT_MS_MIN) return no('invalid', 'its login expires within the hour')
  const plan = textAt(login, 'subscriptionType')
  const until = new Date(expiresAt).toISOString().slice(0, 16).replace('T', ' ')
  const detail = `the login of Claude Code on this machine${parenthesized(plan)}, good until ${until} UTC; for one that lasts, paste what claude setup-token prints`
  return yes({ token, detail })
}

/** The last instant that a JavaScript Date can hold. */
const INSTANT_MAX = 8.64e15

// ---- Codex ---------------------------------------------------------------------------------------------------------

/** Returns the API key in the file; undefined when the file holds a real login or no key. */
export function readCodexKey(text: string): string | undefined {
  const fields = fieldsIn(text)
  const key = textAt(fields, 'OPENAI_API_KEY')
  return hasTokens(fields) || !isCredential(key) ? undefined : key
}

/** Checks a Codex login, which is the whole file: Codex on a worker reads it unchanged. Returns its owner. */
export function readCodexLoginFile(text: string): Result<string> {
  const fields = fieldsIn(text)
  if (!hasTokens(fields)) return no('invalid', 'this is no login of Codex: the text of its auth.json is')
  const claims = decodeClaims(textAt(asFields(fields?.tokens), 'id_token'))
  const plan = textAt(asFields(claims?.['https://api.openai.com/auth']), 'chatgpt_plan_type')
  const email = textAt(claims, 'email')
  return yes(`ChatGPT${parenthesized(plan)}${email === undefined ? '' : `, ${quoted(email)}`}`)
}

function hasTokens(fields: ReplyFields | undefined): boolean {
  return textAt(asFields(fields?.tokens), 'refresh_token') !== undefined
}

/** Decodes a token's claims without verifying its signature. */
function decodeClaims(token: string | undefined): ReplyFields | undefined {
  const middle = token?.split('.')[1]
  return middle === undefined ? undefined : fieldsIn(Buffer.from(middle, 'base64url').toString('utf8'))
}

// ---- Gemini --------------------------------------------------------------------------------------------------------

export function readGeminiLoginFile(text: string): Result<string> {
  const fields = fieldsIn(text)
  const isLogin = textAt(fields, 'refresh_token') ?? textAt(fields, 'access_token')
  if (isLogin === undefined)
    return no('invalid', 'this is no login of Gemini: the text of its oauth_creds.json is')
  return yes('a login of Gemini; its first run shows whether it is still good')
}

const parenthesized = (text: string | undefined): string => (text === undefined ? '' : ` (${quoted(text)})`)
