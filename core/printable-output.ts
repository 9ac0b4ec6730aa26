/**
 * Makes program output safe to print: the result cannot move a cursor, change a title or trigger a terminal's reply.
 *
 * Complete escape sequences, such as colours, are removed. Other control characters and bidirectional marks become
 * visible signs, so that a text never changes its meaning unnoticed. The time is linear in the text: no pattern matches
 * past the start of the next sequence.
 */
import { toSingleLine, truncate } from './safe-text.ts'

/** Keeps newlines and tabs. The line ends of Windows become newlines. */
export function toPrintable(text: string): string {
  // Ordinary text is read once: every sequence begins with a control character.
  if (text.search(CONTROLS) < 0) return text
  return withoutSequences(text).replace(CONTROLS, visibleSign)
}

const withoutSequences = (text: string): string => text.replace(SEQUENCES, '').replaceAll('\r\n', '\n')

/**
 * Makes every text in a JSON value printable. A value whose texts are, as most, is returned itself. No text becomes longer
 * or empty, so the value keeps within the limits of its schema.
 */
export function printableTexts<T>(value: T): T {
  // The casts hold because only texts change, to texts.
  if (typeof value === 'string') return withinLimits(value) as T
  if (typeof value !== 'object' || value === null || isPrintable(value)) return value
  if (Array.isArray(value)) return value.map(printableTexts) as T
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [toPrintable(key), printableTexts(each)]),
  ) as T
}

function withinLimits(text: string): string {
  const printable = toPrintable(text)
  if (printable === '' && text !== '') return REPLACEMENT
  return printable.length <= text.length ? printable : withoutSequences(text).replace(CONTROLS, REPLACEMENT)
}

function isPrintable(value: unknown): boolean {
  if (typeof value === 'string') return value.search(CONTROLS) < 0
  if (typeof value !== 'object' || value === null) return true
  for (const key in value) if (!isPrintable(key) || !isPrintable(Reflect.get(value, key))) return false
  return true
}

/** Makes a single line of bounded length, for reasons. */
export function toSentence(text: string, charsMax: number): string {
  return truncate(toSingleLine(toPrintable(text)), charsMax)
}

const ESC = '\\u001b'
/** Matches the introducer of a sequence: one 8-bit character, or ESC and a letter. */
const introducedBy = (eight: string, letter: string): string => `(?:${eight}|${ESC}${letter})`

const SEQUENCES = new RegExp(
  [
    `${introducedBy('\\u009b', '\\[')}[0-?]*[ -/]*[@-~]`, // colours, cursor, screen
    `${introducedBy('\\u009d', '\\]')}[^\\u0007\\u001b\\u009c\\u009d]*(?:\\u0007|\\u009c|${ESC}\\\\)`, // titles, links, clipboard
    `(?:[\\u0090\\u0098\\u009e\\u009f]|${ESC}[PX^_])[^\\u001b\\u0090\\u0098\\u009c\\u009e\\u009f]*(?:\\u009c|${ESC}\\\\)`, // strings for devices
    `${ESC}[ -/]+[0-~]`, // character sets
    `${ESC}[0-Z\\\\^-~]`, // the short ones
  ].join('|'),
  'g',
)

/** Control characters, and characters that change the writing direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/g

const REPLACEMENT = '\ufffd'

function visibleSign(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '\u2421'
  return `\\u${code.toString(16).padStart(4, '0')}`
}
