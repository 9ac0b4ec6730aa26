/**
 * What a listener reports, as events that every reader accepts: an agent's own objects made harmless, texts made fit
 * to show and split to size.
 */

import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { sanitizeObject } from '../../protocol/safe-json.ts'
import { splitLog, truncateToChars } from '../../protocol/text-budget.ts'
import type { AgentDriver, AgentExit, AgentObservation } from './agent.ts'
import { isBlank, type JsonObject } from './json-lines.ts'
import { toPrintable, toSentence } from './printable-output.ts'

export type AgentProviderName = AgentDriver['provider']

/** A reason is read, and stored with the run; what led to it is in the log. */
const REASON_CHARS_MAX = 1_000
/** Becomes a pull request's text. */
const SUMMARY_CHARS_MAX = PROSE_CHARS_MAX / 4

export function toAgentEvent(provider: AgentProviderName, message: JsonObject, at: string): AgentObservation {
  return { is: 'event', event: { type: 'agent', at, provider, message: sanitizeObject(message) } }
}

/** Nothing for a blank line. */
export function toLogEvents(stream: 'stdout' | 'stderr', line: string, at: string): AgentObservation[] {
  if (isBlank(line)) return []
  return splitLog(toPrintable(line)).map((text) => ({
    is: 'event',
    event: { type: 'log', at, stream, text },
  }))
}

export function toLimitEvent(
  provider: AgentProviderName,
  message: string,
  at: string,
  resetsAt: string | undefined,
): ReportedEvent {
  return { type: 'limit', at, provider, message, ...(resetsAt === undefined ? {} : { resetsAt }) }
}

export const toReason = (text: string): string => toSentence(text, REASON_CHARS_MAX)

/** `undefined`: the agent said nothing. */
export function toSummary(text: string | undefined): string | undefined {
  if (text === undefined || isBlank(text)) return undefined
  return truncateToChars(toPrintable(text).trim(), SUMMARY_CHARS_MAX)
}

/** Milliseconds since 1970, as far as a calendar of four-digit years goes. */
export function toIsoInstant(ms: number): string | undefined {
  return ms >= 0 && ms < END_OF_9999 ? new Date(ms).toISOString() : undefined
}

const END_OF_9999 = 253_402_300_800_000

// ---- how a process ended -----------------------------------------------------------------------------------------

const SIGNAL_BY_EXIT_CODE: Readonly<Record<number, string>> = {
  130: 'SIGINT',
  137: 'SIGKILL',
  143: 'SIGTERM',
}

/** The signal that ended it, whether the system says so or a shell by its exit code. */
export function findSignal({ code, signal }: AgentExit): string | undefined {
  return signal ?? (code === undefined ? undefined : SIGNAL_BY_EXIT_CODE[code])
}

export interface ExitContext {
  /** What it said last on standard error. */
  readonly lastErrorLine?: string | undefined
  /** It said before that all is well. */
  readonly hadResult?: boolean
}

/** For an agent that ended badly and did not say why. */
export function describeSilentExit(
  exit: AgentExit,
  { lastErrorLine, hadResult = false }: ExitContext,
): string {
  const when = hadResult ? 'after it had reported a result' : 'before it reported a result'
  const signal = findSignal(exit)
  if (signal === 'SIGKILL') {
    return `the agent was killed ${when}; if nobody stopped it, it used more memory than there is`
  }
  if (signal !== undefined) return `the agent was ended by ${signal} ${when}`
  const errorText = lastErrorLine === undefined ? '' : `: ${lastErrorLine}`
  return toReason(`the agent ended with exit code ${exit.code ?? 'unknown'} ${when}${errorText}`)
}
