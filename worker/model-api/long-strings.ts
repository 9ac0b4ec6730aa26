/**
 * `foldLongStrings` takes the long strings out of a JSON text, so that a request with large files is quick to parse.
 *
 * Each long string keeps its beginning, followed by a mark that nobody outside can guess; `unfold` puts the bytes back
 * as they came. What remains to parse is bounded in bytes and in parts, because a sandbox chooses the text.
 */
import { randomUUID } from 'node:crypto'
import { MODEL_API_PARSED_BYTES_MAX, MODEL_API_PARSED_PARTS_MAX } from '../../protocol/limits.ts'
import { ModelRefusal } from './model-errors.ts'

export interface FoldedText {
  /** Valid JSON if the whole text is. */
  readonly text: string
  unfold(text: string): Buffer
}

const STRING_BYTES_MAX = 16 * 1024
/** Enough to recognize a `data:` address with its media type. */
const HEAD_BYTES = 64
const QUOTE = 0x22
const BACKSLASH = 0x5c
/** The comma and the opening brackets: each begins a value. */
const OPENS_VALUE = new Set([0x2c, 0x5b, 0x7b])

/** Throws a `ModelRefusal` when too much remains. */
export function foldLongStrings(bytes: Buffer): FoldedText {
  const mark = `${randomUUID()}#`
  const [kept, tails]: [Buffer[], Buffer[]] = [[], []]
  let [from, parts] = [0, 0]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (OPENS_VALUE.has(byte)) parts += 1
    if (byte === QUOTE) {
      const { end, quotes } = endOfString(bytes, at + 1, MODEL_API_PARSED_PARTS_MAX - parts)
      parts += quotes
      if (end - at > STRING_BYTES_MAX) {
        const tailAt = endOfHead(bytes, at + 1)
        kept.push(bytes.subarray(from, tailAt), Buffer.from(`${mark}${tails.length};`))
        tails.push(bytes.subarray(tailAt, end))
        from = end
      }
      at = end
    }
    if (parts > MODEL_API_PARSED_PARTS_MAX) throw new ModelRefusal('size', 'its body has too many parts')
  }
  const folded = Buffer.concat([...kept, bytes.subarray(from)])
  if (folded.length > MODEL_API_PARSED_BYTES_MAX) throw new ModelRefusal('size', 'its body has too much text')
  return { text: folded.toString('utf8'), unfold: (text) => putBack(text, mark, tails) }
}

/** The index of the closing quote, or the length of an unclosed text; counts the quotes on the way. */
function endOfString(bytes: Buffer, from: number, quotesMax: number): { end: number; quotes: number } {
  let quotes = 0
  for (let at = from; quotes <= quotesMax; at += 1) {
    at = bytes.indexOf(QUOTE, at)
    if (at < 0) break
    quotes += 1
    let slashes = 0
    while (at - slashes > from && bytes[at - slashes - 1] === BACKSLASH) slashes += 1
    if (slashes % 2 === 0) return { end: at, quotes }
  }
  return { end: bytes.length, quotes }
}

/** The head ends before anything that a cut could break: an escape, or a character of several bytes. */
function endOfHead(bytes: Buffer, from: number): number {
  let at = from
  while (at < from + HEAD_BYTES && (bytes[at] ?? 0) < 0x80 && bytes[at] !== BACKSLASH) at += 1
  return at
}

function putBack(text: string, mark: string, tails: readonly Buffer[]): Buffer {
  const [first = '', ...rest] = text.split(mark)
  const pieces = rest.flatMap((piece) => {
    const end = piece.indexOf(';')
    return [tails[Number(piece.slice(0, end))] ?? Buffer.alloc(0), Buffer.from(piece.slice(end + 1))]
  })
  return Buffer.concat([Buffer.from(first), ...pieces])
}
