/** The lines of a run's log that the board shows: the newest one beside its run, and the last ones of one run. */
import type { RunEvent } from '../../protocol/run.ts'
import { keepColors } from '../commands/keep-colors.ts'
import { lineOf } from '../commands/run-lines.ts'

/** A line of the log below the board. */
export interface BoardLogLine {
  readonly index: number
  readonly at: string
  readonly mark: string
  readonly text: string
  /** Stands behind the time of a state. */
  readonly reason?: string | undefined
}

/** An event may have a text of 256 KiB, and no terminal is as wide as this. */
const CHARS_MAX = 1_000
/** No terminal shows more lines of one event. */
const LINES_MAX = 200

/** The newest line as it stands beside a run: `> Bash: npm test`. Undefined for an event that prints no line. */
export function newestLineOf(event: RunEvent): string | undefined {
  if (event.type === 'status' || event.type === 'cost' || event.type === 'gap') return undefined
  const line = lineOf(event)
  const text = line === undefined ? undefined : plainLines(line.text).findLast((each) => each.trim() !== '')
  if (line === undefined || text === undefined) return undefined
  return line.mark === '' ? text.trim() : `${line.mark} ${text.trim()}`
}

/** The lines of one event, as `switchyard logs` prints them. */
export function logLinesOf(event: RunEvent): BoardLogLine[] {
  const line = lineOf(event)
  if (line === undefined) return []
  const { index, at } = event
  const { mark, reason } = line
  return plainLines(line.text).map((text) => ({ index, at, mark, text, reason: reason || undefined }))
}

/** A program that draws a progress bar prints many texts over each other; the last one is what a terminal shows. */
const plainLines = (text: string): string[] =>
  text
    .split('\n')
    .slice(-LINES_MAX)
    .map((line) => keepColors((line.trimEnd().split('\r').at(-1) ?? '').slice(0, CHARS_MAX), false))
