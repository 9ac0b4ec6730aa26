/**
 * Measures the JSON length of texts, and truncates texts to such a length.
 *
 * A control character is one character and six bytes, so sizes are measured as the frame will be written. A text is
 * never cut inside a surrogate pair.
 */
import { LOG_EVENT_BYTES_MAX } from './limits.ts'
import { TRUNCATION_MARK } from './safe-json.ts'

/** Bytes of the value's JSON in UTF-8. */
export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '')

/** Bytes of the text's JSON without its quotes. */
export const textBytes = (text: string): number => jsonBytes(text) - 2

const MARK_BYTES = textBytes(TRUNCATION_MARK)

/** Truncates to at most this many bytes of JSON, the mark included. */
export function truncateToBytes(text: string, bytesMax: number): string {
  if (text.length * UNIT_BYTES_MAX <= bytesMax || textBytes(text) <= bytesMax) return text
  return `${text.slice(0, fittingEnd(text, 0, bytesMax - MARK_BYTES))}${TRUNCATION_MARK}`
}

/** Truncates to at most this many characters, as schemas count them, the mark included. */
export function truncateToChars(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const characters = [...text.slice(0, 2 * charsMax + 1)]
  if (characters.length <= charsMax) return text
  return `${characters.slice(0, Math.max(0, charsMax - TRUNCATION_MARK.length)).join('')}${TRUNCATION_MARK}`
}

/** Returns the end of a text, at most this many bytes of JSON. */
export function keepEnd(text: string, bytesMax: number): string {
  let kept = text.slice(-Math.max(1, bytesMax))
  for (let bytes = textBytes(kept); bytes > bytesMax; bytes = textBytes(kept))
    kept = kept.slice(kept.length - Math.floor((kept.length * bytesMax) / bytes))
  return isLow(kept.charCodeAt(0)) ? kept.slice(1) : kept
}

/** Splits output into pieces that each fit into one log event, at line ends where possible. Nothing is lost. */
export function splitLog(text: string): string[] {
  const pieces: string[] = []
  for (let from = 0; from < text.length; ) {
    const end = breakAtLineEnd(text, from, fittingEnd(text, from, LOG_EVENT_BYTES_MAX))
    pieces.push(text.slice(from, end))
    from = end
  }
  return pieces
}

/** Prefers the last line end in the second half of a piece; a longer line is split. */
function breakAtLineEnd(text: string, from: number, end: number): number {
  if (end === text.length) return end
  const afterLastNewline = text.lastIndexOf('\n', end - 1) + 1
  return afterLastNewline > from + (end - from) / 2 ? afterLastNewline : end
}

/** The most bytes that one UTF-16 unit can become. */
export const UNIT_BYTES_MAX = 6

/** Returns the end of the longest piece from `from` with at most `bytesMax` bytes of JSON, at least one character. */
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

/** Characters that JSON escapes with one letter after a backslash. */
const SHORT_ESCAPES = new Set([...'\b\t\n\f\r"\\'].map((sign) => sign.charCodeAt(0)))

function unitBytes(unit: number): number {
  if (SHORT_ESCAPES.has(unit)) return 2
  if (unit < 0x20 || isHigh(unit) || isLow(unit)) return UNIT_BYTES_MAX
  if (unit < 0x80) return 1
  return unit < 0x800 ? 2 : 3
}
