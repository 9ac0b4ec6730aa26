/**
 * A listener that never hears the secrets its agent was given.
 *
 * An agent can print its environment, and errors of an API repeat a key: what was said would be stored with the run
 * and shown to everybody who may see it. Of a login, which is a file's text, each of its longer values is a secret.
 * Lines are JSON, so that a secret may stand there in another form than it was given in.
 */
import { createRedactor } from '../../core/redact-secrets.ts'
import type { AgentListener, AgentTask } from './agent.ts'
import { isObject, parseObject } from './json-lines.ts'

/** Shorter than any credential; a shorter text would be found everywhere. */
const SECRET_CHARS_MIN = 12
const SECRETS_MAX = 20

export function withRedaction(
  listener: AgentListener,
  { credential, secrets: more = [] }: AgentTask,
): AgentListener {
  const secrets = longestFirst([
    ...(credential === undefined ? [] : secretsOfCredential(credential.value)),
    ...more,
  ])
  if (secrets.length === 0) return listener
  const redact = createRedactor(secrets)
  return {
    onOutputLine: (text, at) => listener.onOutputLine(redact(text), at),
    onErrorLine: (text, at) => listener.onErrorLine(redact(text), at),
    onExit: (exit, at) => listener.onExit(exit, at),
  }
}

function secretsOfCredential(credential: string): string[] {
  const login = parseObject(credential)
  return login === undefined ? [credential] : stringsIn(login)
}

/** One may be part of another. */
function longestFirst(texts: readonly string[]): string[] {
  const secrets = texts.map((text) => text.trim()).filter((text) => text.length >= SECRET_CHARS_MIN)
  return [...new Set(secrets)].sort((a, b) => b.length - a.length).slice(0, SECRETS_MAX)
}

const NOT_SECRET = /^(account_id|last_refresh|auth_mode|expiry_date|scope|token_type)$/

function stringsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value]
  if (!isObject(value) || depth > 4) return []
  return Object.entries(value).flatMap(([name, member]) =>
    NOT_SECRET.test(name) ? [] : stringsIn(member, depth + 1),
  )
}
