/**
 * How long a text is once it is JSON, and texts cut to such a length.
 *
 * A control character is one character and six bytes, so what counts against a frame is counted as the frame will be
 * written. A text is never cut inside a character.
 */

import { LOG_EVENT_BYTES_MAX } from './limits.ts'
import { TRUNCATION_MARK } from './safe-json.ts'

/** As JSON, in UTF-8. */
export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '')

/** As JSON without its quotes. */
export const textBytes = (text: string): number => jsonBytes(text) - 2

const MARK_BYTES = textBytes(TRUNCATION_MARK)

/** At most so many bytes of JSON, the mark that says so included. */
export function truncateToBytes(text: string, bytesMax: number): string {
  if (text.length * UNIT_BYTES_MAX <= bytesMax || textBytes(text) <= bytesMax) return text
  return `${text.slice(0, fittingEnd(text, 0, bytesMax - MARK_BYTES))}${TRUNCATION_MARK}`
}

/** At most so many characters, as schemas count them, the mark included. */
export function truncateToChars(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const characters = [...text.slice(0, 2 * charsMax + 1)]
  if (characters.length <= charsMax) return text
  return `${characters.slice(0, Math.max(0, charsMax - TRUNCATION_MARK.length)).join('')}${TRUNCATION_MARK}`
}

/** Output in pieces that each fit into one log event, cut behind a line's end where one is near. Nothing is lost. */
export function splitLog(text: string): string[] {
  const pieces: string[] = []
  for (let from = 0; from < text.length; ) {
    const end = breakAtLineEnd(text, from, fittingEnd(text, from, LOG_EVENT_BYTES_MAX))
    pieces.push(text.slice(from, end))
    from = end
  }
  return pieces
}

/** The last line's end in the second half of a piece; a line longer than that is cut. */
function breakAtLineEnd(text: string, from: number, end: number): number {
  if (end === text.length) return end
  const afterLastNewline = text.lastIndexOf('\n', end - 1) + 1
  return afterLastNewline > from + (end - from) / 2 ? afterLastNewline : end
}

/** The most bytes that one unit of a text can become. */
const UNIT_BYTES_MAX = 6

/** How far from `from` on a text has at most so many bytes as JSON; at least one character far. */
function fittingEnd(text: string, from: number, bytesMax: number): number {
  let at = from
  for (let bytes = 0; at < text.length; ) {
    const units = isPair(text, at) ? 2 : 1
    bytes += units === 2 ? 4 : unitBytes(text.charCodeAt(at))
    if (bytes > bytesMax && at > from) return at
    at += units
  }
  return at
}

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000

function isPair(text: string, at: number): boolean {
  return isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1))
}

/** Those that JSON writes with one letter behind a backslash. */
const SHORT_ESCAPES = new Set([...'\b\t\n\f\r"\\'].map((sign) => sign.charCodeAt(0)))

function unitBytes(unit: number): number {
  if (SHORT_ESCAPES.has(unit)) return 2
  if (unit < 0x20 || isHigh(unit) || isLow(unit)) return UNIT_BYTES_MAX
  if (unit < 0x80) return 1
  return unit < 0x800 ? 2 : 3
}
