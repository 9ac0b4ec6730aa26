/**
 * Makes the output of programs fit for rows: progress that was drawn over itself is its last state, sequences that do
 * more than set colours are gone, and what remains of a very long line is its beginning.
 */
import { SEQUENCE } from '../../../../client/escape-sequences.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with a control character
const COLOR = /^\x1b\[[0-9;]*m$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: see above
const LONE_ESCAPE = /\x1b(?!\[[0-9;]*m)/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: they have no shape, and an escape may stay for colours
const CONTROLS = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]/g
/** Marks that turn the direction of the text around them, so that it reads differently from what it is. */
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: see above
const UNUSUAL = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b(?!\[[0-9;]*m)/
const ESCAPE = '\x1b'

/** A longer line is folded. No program writes more for people on one line. */
export const LINE_CHARS_MAX = 4_000

/** The lines of a text, without the line end at its end. */
export function splitLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines.length > 1 && lines.at(-1) === '') lines.pop()
  return lines.map(cleanLine)
}

/** A line with its colours, and nothing else that acts. */
export function cleanLine(line: string): string {
  const short = line.length <= LINE_CHARS_MAX ? line : lastState(line).slice(0, LINE_CHARS_MAX)
  const text = UNUSUAL.test(short) ? withoutControls(lastState(short)) : short
  return line.length <= LINE_CHARS_MAX ? text : `${text}… ${line.length.toLocaleString('en-US')} characters`
}

/** The text after the last carriage return that something follows: a progress bar is drawn over itself. */
function lastState(line: string): string {
  const end = line.endsWith('\r') ? line.length - 1 : line.length
  const start = line.lastIndexOf('\r', end - 1)
  return line.slice(start + 1, end)
}

const withoutControls = (line: string): string =>
  showTurningMarks(
    line
      .replace(SEQUENCE, (sequence) => (COLOR.test(sequence) ? sequence : ''))
      .replace(LONE_ESCAPE, '')
      .replace(CONTROLS, ''),
  )

/** Every mark that turns text becomes a sign that is seen; the other places of the text stay. */
export const showTurningMarks = (text: string): string => text.replace(DIRECTION, '\ufffd')

/** The letters of a cleaned line, which are searched, compared and copied. */
export const plainText = (line: string): string => (line.includes(ESCAPE) ? line.replace(SEQUENCE, '') : line)

export const hasColors = (line: string): boolean => line.includes(ESCAPE)
