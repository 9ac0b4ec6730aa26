/**
 * What a program printed, made fit to show: nothing in it moves a cursor, changes a title or answers a question when
 * somebody's terminal gets it.
 *
 * Colours and other whole escape sequences go. Any other character that a terminal obeys, or that reorders a line,
 * stays as a sign one can see, so that a text never becomes another one unnoticed. Time is linear in the text, which
 * is why no sequence is looked for beyond the beginning of the next one.
 */
import { toSingleLine, truncate } from '../../core/safe-text.ts'

/** Lines and tabs stay. */
export function toPrintable(text: string): string {
  return text.replace(SEQUENCES, '').replace(CONTROL_CHARACTERS, visibleSign)
}

/** For a reason: one line, and no longer than a person reads. */
export function toSentence(text: string, charsMax: number): string {
  return truncate(toSingleLine(toPrintable(text)), charsMax)
}

const ESC = '\\u001b'
/** Introduced by one character of eight bits, or by ESC and another one. */
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

/** Control characters, and those that turn the direction of writing. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

function visibleSign(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '\u2421'
  return `\\u${code.toString(16).padStart(4, '0')}`
}
