/**
 * Wraps a listener so that the agent's secrets are redacted from every line before the listener parses it.
 *
 * Without this, secrets in printed environments or API errors would be stored with the run and shown to people. Each
 * long value in a login file counts as a secret. Lines are JSON, so a secret may occur there in an escaped form.
 */
import { createRedactor } from '../../core/redact-secrets.ts'
import { secretsOfCredential } from '../secrets/run-secrets.ts'
import type { AgentListener, AgentTask } from './agent.ts'

/** Shorter than any credential. Redacting shorter texts would hit ordinary output. */
const SECRET_CHARS_MIN = 12
const SECRETS_MAX = 20

export function withRedaction(
  listener: AgentListener,
  { credential, modelApiUrl, secrets: more = [] }: AgentTask,
): AgentListener {
  // With an address of the worker, the credential is a placeholder.
  const isSecret = credential !== undefined && modelApiUrl === undefined
  const secrets = longestFirst([...(isSecret ? secretsOfCredential(credential.value) : []), ...more])
  if (secrets.length === 0) return listener
  const redact = createRedactor(secrets)
  return {
    onOutputLine: (text, at) => listener.onOutputLine(redact(text), at),
    onErrorLine: (text, at) => listener.onErrorLine(redact(text), at),
    onExit: (exit, at) => listener.onExit(exit, at),
  }
}

/** Longest first, because a secret may be part of another. */
function longestFirst(texts: readonly string[]): string[] {
  const secrets = texts.map((text) => text.trim()).filter((text) => text.length >= SECRET_CHARS_MIN)
  return [...new Set(secrets)].sort((a, b) => b.length - a.length).slice(0, SECRETS_MAX)
}
