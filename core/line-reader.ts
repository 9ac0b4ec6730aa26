/**
 * Splits a byte stream into lines of text, in linear time.
 *
 * A line ends with LF, CRLF or the end of the stream. Invalid UTF-8 becomes �; NUL stays, for the display to handle.
 * An overlong line is truncated to its beginning, with a note of how many bytes are missing; or it is left out.
 */

/** Tool results of an agent can have megabytes; longer lines have no use for a reader. */
export const LINE_BYTES_MAX = 8 * 1024 * 1024
/** Truncated JSON cannot be parsed, so only enough is kept to recognize the line. */
export const TRUNCATED_LINE_BYTES_KEPT = 64 * 1024

const NEWLINE = 0x0a
const RETURN = 0x0d

export interface LineReader {
  /** Returns the lines that these bytes complete. */
  push(bytes: Uint8Array): string[]
  /** Returns the unfinished last line, if any. */
  flush(): string[]
}

export interface LineReaderOptions {
  /** Lines without these bytes may be left out, which saves reading them as text. */
  readonly marker?: Buffer
  readonly bytesMax?: number
  /** Called once for each overlong line, which is then left out. */
  readonly onTooLong?: () => void
}

export function createLineReader(options: LineReaderOptions = {}): LineReader {
  const { marker } = options
  const line = pendingLine(options)
  return {
    push(bytes) {
      const lines: string[] = []
      // The end of a line that has begun is read in any case.
      let from = marker !== undefined && line.isEmpty() ? endOfLinesWithout(marker, bytes, 0) : 0
      for (let end = bytes.indexOf(NEWLINE, from); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
        const isFirst = from === 0
        line.add(bytes.subarray(from, end))
        lines.push(...line.take())
        from = marker !== undefined && isFirst ? endOfLinesWithout(marker, bytes, end + 1) : end + 1
      }
      line.add(bytes.subarray(from))
      return lines
    },
    flush: () => (line.isEmpty() ? [] : line.take()),
  }
}

/** The end of the last whole line, when no whole line behind `from` holds the marker; else `from`. */
function endOfLinesWithout(marker: Buffer, bytes: Uint8Array, from: number): number {
  const end = bytes.lastIndexOf(NEWLINE) + 1
  if (end <= from) return from
  const lines = Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from)
  return lines.includes(marker) ? from : end
}

interface PendingLine {
  add(bytes: Uint8Array): void
  isEmpty(): boolean
  /** Nothing when the line is left out. */
  take(): string[]
}

function pendingLine({ bytesMax = LINE_BYTES_MAX, onTooLong }: LineReaderOptions): PendingLine {
  let kept: Buffer[] = []
  let length = 0
  return {
    add(bytes) {
      if (bytes.length === 0) return
      const fitted = length <= bytesMax
      length += bytes.length
      // Copy the bytes: the caller may reuse its buffer.
      if (length <= bytesMax) kept.push(Buffer.from(bytes))
      else if (fitted) {
        kept = [firstBytes([...kept, bytes])]
        onTooLong?.()
      }
    },
    isEmpty: () => length === 0,
    take() {
      const isWhole = length <= bytesMax
      const lines = isWhole ? [wholeLine(kept)] : onTooLong === undefined ? [truncatedLine(kept, length)] : []
      kept = []
      length = 0
      return lines
    },
  }
}

function firstBytes(parts: readonly Uint8Array[]): Buffer {
  const own = Buffer.alloc(TRUNCATED_LINE_BYTES_KEPT)
  let at = 0
  for (const part of parts) {
    if (at >= own.length) break
    own.set(part.subarray(0, own.length - at), at)
    at += part.length
  }
  return own
}

function wholeLine(parts: readonly Buffer[]): string {
  const bytes = parts.length === 1 ? (parts[0] ?? Buffer.alloc(0)) : Buffer.concat(parts)
  const end = bytes.at(-1) === RETURN ? bytes.length - 1 : bytes.length
  return bytes.toString('utf8', 0, end)
}

function truncatedLine([bytes = Buffer.alloc(0)]: readonly Buffer[], length: number): string {
  return `${bytes.toString('utf8')}… [cut: ${length - bytes.length} more bytes in this line]`
}
