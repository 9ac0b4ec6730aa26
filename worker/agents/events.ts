/**
 * Builds the events that listeners report: an agent's JSON objects made safe, texts made printable and split to size.
 */

import { toPrintable, toSentence } from '../../core/printable-output.ts'
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import { PROSE_CHARS_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { sanitizeObject } from '../../protocol/safe-json.ts'
import { splitLog, truncateToChars } from '../../protocol/text-budget.ts'
import type { AgentExit, AgentObservation } from './agent.ts'
import { isBlank, type JsonObject } from './json-lines.ts'

/** A reason is stored with the run and shown to people; details are in the log. */
const REASON_CHARS_MAX = 1_000
/** The summary becomes the text of a pull request. */
const SUMMARY_CHARS_MAX = PROSE_CHARS_MAX / 4

export function toAgentEvent(provider: AgentProvider, message: JsonObject, at: string): AgentObservation {
  return {
    is: 'event',
    event: { type: 'agent', at, provider, message: sanitizeObject(message, toPrintable) },
  }
}

/** Returns no events for a blank line. */
export function toLogEvents(stream: 'stdout' | 'stderr', line: string, at: string): AgentObservation[] {
  if (isBlank(line)) return []
  return splitLog(toPrintable(line)).map((text) => ({
    is: 'event',
    event: { type: 'log', at, stream, text },
  }))
}

export function toLimitEvent(
  provider: AgentProvider,
  message: string,
  at: string,
  resetsAt: string | undefined,
): ReportedEvent {
  return { type: 'limit', at, provider, message, ...(resetsAt === undefined ? {} : { resetsAt }) }
}

export const toReason = (text: string): string => toSentence(text, REASON_CHARS_MAX)

/** Returns undefined when the agent wrote no text. */
export function toSummary(text: string | undefined): string | undefined {
  if (text === undefined || isBlank(text)) return undefined
  return truncateToChars(toPrintable(text).trim(), SUMMARY_CHARS_MAX)
}

/** Converts milliseconds since 1970, up to the year 9999. */
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

/** Finds the signal that ended the process, reported by the system or by a shell's exit code. */
export function findSignal({ code, signal }: AgentExit): string | undefined {
  return signal ?? (code === undefined ? undefined : SIGNAL_BY_EXIT_CODE[code])
}

export interface ExitContext {
  /** The last line of standard error. */
  readonly lastErrorLine?: string | undefined
  /** The agent had reported a result before. */
  readonly hadResult?: boolean
}

/** Describes a failed exit for which the agent gave no reason. */
export function describeSilentExit(
  exit: AgentExit,
  { lastErrorLine, hadResult = false }: ExitContext,
): string {
  const when = hadResult ? 'after it had reported a result' : 'before it reported a result'
  const signal = findSignal(exit)
  if (signal === 'SIGKILL') {
    return `the agent was killed ${when}; if nobody stopped it, it used more memory than there is: sandbox.memoryMib gives a sandbox more`
  }
  if (signal !== undefined) return `the agent was ended by ${signal} ${when}`
  const errorText = lastErrorLine === undefined ? '' : `: ${lastErrorLine}`
  return toReason(`the agent ended with exit code ${exit.code ?? 'unknown'} ${when}${errorText}`)
}
