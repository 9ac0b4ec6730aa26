/**
 * splitLogEvent splits a log event whose text is too long for one event, at line ends where possible. Nothing of the text
 * is lost. Other events, and log events that fit, are returned as they are.
 */
import { LOG_EVENT_BYTES_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { splitLog, UNIT_BYTES_MAX } from '../../protocol/text-budget.ts'

export function splitLogEvent(event: ReportedEvent): readonly ReportedEvent[] {
  if (event.type !== 'log' || event.text.length * UNIT_BYTES_MAX <= LOG_EVENT_BYTES_MAX) return [event]
  const parts = splitLog(event.text)
  return parts.length <= 1 ? [event] : parts.map((text) => ({ ...event, text }))
}
