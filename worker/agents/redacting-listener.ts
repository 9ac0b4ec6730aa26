/**
 * A listener that never hears the secrets its agent was given.
 *
 * An agent can print its environment, and errors of an API repeat a key: what was said would be stored with the run
 * and shown to everybody who may see it. Of a login, which is a file's text, each of its longer values is a secret.
 * Lines are JSON, so that a secret may stand there in another form than it was given in.
 */
import { createRedactor } from '../../core/redact-secrets.ts'
import type { AgentListener, AgentTask } from './agent.ts'
import { isObject, objectIn } from './json-lines.ts'

/** Shorter than any credential; a shorter text would be found everywhere. */
const SECRET_CHARS_MIN = 12
const SECRETS_MAX = 20

export function redacted(
  listener: AgentListener,
  { credential, secrets: more = [] }: AgentTask,
): AgentListener {
  const secrets = longestFirst([...(credential === undefined ? [] : textsOf(credential.value)), ...more])
  if (secrets.length === 0) return listener
  const clean = createRedactor(secrets)
  return {
    line: (text, at) => listener.line(clean(text), at),
    complaint: (text, at) => listener.complaint(clean(text), at),
    ended: (exit, at) => listener.ended(exit, at),
  }
}

function textsOf(credential: string): string[] {
  const login = objectIn(credential)
  return login === undefined ? [credential] : textsIn(login)
}

/** One may be part of another. */
function longestFirst(texts: readonly string[]): string[] {
  const secrets = texts.map((text) => text.trim()).filter((text) => text.length >= SECRET_CHARS_MIN)
  return [...new Set(secrets)].sort((a, b) => b.length - a.length).slice(0, SECRETS_MAX)
}

const NOT_SECRET = /^(account_id|last_refresh|auth_mode|expiry_date|scope|token_type)$/

function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (!isObject(value) || depth > 4) return []
  return Object.entries(value).flatMap(([name, one]) =>
    NOT_SECRET.test(name) ? [] : textsIn(one, depth + 1),
  )
}
