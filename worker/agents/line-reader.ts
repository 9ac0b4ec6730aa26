/**
 * Bytes as they come, into lines.
 *
 * A line ends with a newline, or with the stream; a carriage return in front of it belongs to the end. What is no
 * UTF-8 becomes �, NUL stays: both are for whoever shows it. Every line comes out, but of one that is too long only
 * its beginning, with a mark that says how much is missing. Each byte is looked at once.
 */

/** An agent's tool results are megabytes at times; more than this is not meant for anybody. */
export const LINE_BYTES_MAX = 8 * 1024 * 1024
/** Half of a JSON text is none, so of a longer line no more is kept than shows what it was. */
export const TRUNCATED_LINE_BYTES_KEPT = 64 * 1024

const NEWLINE = 0x0a
const RETURN = 0x0d

export interface LineReader {
  /** The lines that these bytes complete. */
  push(bytes: Uint8Array): string[]
  /** What stands behind the last newline. */
  flush(): string[]
}

export function createLineReader(): LineReader {
  const line = pendingLine()
  return {
    push(bytes) {
      const lines: string[] = []
      let from = 0
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
        line.add(bytes.subarray(from, end))
        lines.push(line.take())
        from = end + 1
      }
      line.add(bytes.subarray(from))
      return lines
    },
    flush: () => (line.isEmpty() ? [] : [line.take()]),
  }
}

interface PendingLine {
  add(bytes: Uint8Array): void
  isEmpty(): boolean
  take(): string
}

function pendingLine(): PendingLine {
  let kept: Buffer[] = []
  let length = 0
  return {
    add(bytes) {
      if (bytes.length === 0) return
      const fitted = length <= LINE_BYTES_MAX
      length += bytes.length
      // A copy: the reader of a stream may use its buffer again.
      if (length <= LINE_BYTES_MAX) kept.push(Buffer.from(bytes))
      else if (fitted) kept = [firstBytes([...kept, bytes])]
    },
    isEmpty: () => length === 0,
    take() {
      const text = length <= LINE_BYTES_MAX ? wholeLine(kept) : truncatedLine(kept, length)
      kept = []
      length = 0
      return text
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
