/**
 * Wraps a listener so that the agent's secrets are redacted from every line before the listener parses it, and from
 * the events that the listener makes.
 *
 * Without this, secrets in printed environments or API errors would be stored with the run and shown to people. Each
 * long value in a login file counts as a secret. Lines are JSON, so a secret may occur there in an escaped form. Colours
 * inside a secret are gone in the events only.
 */
import { createRedactor } from '../../core/redact-secrets.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { secretsOfCredential } from '../secrets/run-secrets.ts'
import type { AgentExitReport, AgentListener, AgentObservation, AgentTask } from './agent.ts'

/** Shorter than any credential. Redacting shorter texts would hit ordinary output. */
const SECRET_CHARS_MIN = 12
const SECRETS_MAX = 20

type Redact = (text: string) => string

export function withRedaction(
  listener: AgentListener,
  { credential, modelApiUrl, secrets: more = [] }: AgentTask,
): AgentListener {
  // With an address of the worker, the credential is a placeholder.
  const isSecret = credential !== undefined && modelApiUrl === undefined
  const secrets = longestFirst([...(isSecret ? secretsOfCredential(credential.value) : []), ...more])
  if (secrets.length === 0) return listener
  const redact = createRedactor(secrets)
  const redactAll = (observations: readonly AgentObservation[]) =>
    observations.map((observation) => redactObservation(observation, redact))
  return {
    onOutputLine: (text, at) => redactAll(listener.onOutputLine(redact(text), at)),
    onErrorLine: (text, at) => redactAll(listener.onErrorLine(redact(text), at)),
    onExit: (exit, at) => redactReport(listener.onExit(exit, at), redact),
  }
}

/** Longest first, because a secret may be part of another. */
function longestFirst(texts: readonly string[]): string[] {
  const secrets = texts.map((text) => text.trim()).filter((text) => text.length >= SECRET_CHARS_MIN)
  return [...new Set(secrets)].sort((a, b) => b.length - a.length).slice(0, SECRETS_MAX)
}

function redactObservation(observation: AgentObservation, redact: Redact): AgentObservation {
  return observation.is === 'event'
    ? { ...observation, event: redactEvent(observation.event, redact) }
    : observation
}

/** The summary stays: a secret in it fails the run before anything is published. */
function redactReport({ reason, events, ...report }: AgentExitReport, redact: Redact): AgentExitReport {
  return {
    ...report,
    ...(reason === undefined ? {} : { reason: redact(reason) }),
    events: events.map((event) => redactEvent(event, redact)),
  }
}

/** An event is plain JSON, and a secret in it is replaced by a text of plain letters. */
function redactEvent(event: ReportedEvent, redact: Redact): ReportedEvent {
  const text = JSON.stringify(event)
  const redacted = redact(text)
  return redacted === text ? event : (JSON.parse(redacted) as ReportedEvent)
}
