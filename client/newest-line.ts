/** The newest line of a run's last events, for a row that has one line for it. */
import type { RunEvent } from '../protocol/run.ts'
import { readAgentMessage } from './agent-messages.ts'
import { SEQUENCE } from './escape-sequences.ts'

/** No row is as wide. */
const CHARS_MAX = 300

/** Undefined when none of the events is a line. */
export function newestLine(events: readonly RunEvent[]): string | undefined {
  for (const event of events.toReversed()) {
    const line = lineOf(event)
    if (line !== undefined && line !== '') return line
  }
  return undefined
}

function lineOf(event: RunEvent): string | undefined {
  if (event.type === 'log') return lastLine(event.text)
  if (event.type !== 'agent') return undefined
  const part = readAgentMessage(event.message).findLast(({ is }) => is !== 'outcome')
  if (part === undefined || part.is === 'outcome') return undefined
  return part.is === 'call' ? `${part.tool} ${part.subject}`.trim() : lastLine(part.text)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: nothing else may move a cursor
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/g

/** A progress bar is printed over itself; the last print is what stands there. */
function lastLine(text: string): string | undefined {
  const line = text.split('\n').findLast((each) => each.trim() !== '')
  const shown = line?.trimEnd().split('\r').at(-1)?.replace(SEQUENCE, '').replace(CONTROLS, ' ')
  return shown?.trim().slice(0, CHARS_MAX)
}
