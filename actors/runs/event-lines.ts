/**
 * `EventLines` holds events of one run as JSON lines, in the bytes that the store writes.
 *
 * Ten thousand events may wait for one commit. As objects and strings each of them would be copied by several garbage
 * collections, which cost more than reading them; bytes are outside of the collected memory.
 */
export interface EventAppend {
  /** False when the event would exceed the limit, and was left out. */
  readonly isKept: boolean
  readonly bytes: number
}

const EMPTY = Buffer.alloc(0)
const [NEWLINE, COMMA] = ['\n', ','].map((text) => text.charCodeAt(0)) as [number, number]
const UTF8_BYTES_PER_UNIT_MAX = 3
/** Many lines are several pieces of this size: one buffer that grows would be copied again and again. */
const PIECE_BYTES = 64 * 1024

/** Some of the lines, in their order. */
export interface EventPiece {
  readonly lines: Buffer
  readonly count: number
}

export class EventLines {
  #pieces: EventPiece[] = []
  /** The lines in `#pieces`. */
  #pieceLines = 0
  #bytes = EMPTY
  #used = 0
  #lines = 0

  get count(): number {
    return this.#pieceLines + this.#lines
  }

  /**
   * Appends a line, unless it would be longer than `bytesMax`. `head`: the first fields of the event, without the end of
   * an object. `rest`: an object with the other fields.
   */
  append(head: string, rest: string, bytesMax: number): EventAppend {
    const bytesAtMost = (head.length + rest.length) * UTF8_BYTES_PER_UNIT_MAX + 1
    if (this.#used + bytesAtMost > this.#bytes.length)
      this.#reserve(Buffer.byteLength(head) + Buffer.byteLength(rest) + 1)
    const bytes = this.#bytes
    const start = this.#used
    const comma = start + bytes.write(head, start)
    const end = comma + bytes.write(rest, comma)
    // Both parts become one object: a comma replaces the bracket between them.
    bytes[comma] = COMMA
    bytes[end] = NEWLINE
    const length = end + 1 - start
    if (length > bytesMax) return { isKept: false, bytes: length }
    this.#used = end + 1
    this.#lines += 1
    return { isKept: true, bytes: length }
  }

  /** Returns all lines, and forgets them. */
  take(): readonly EventPiece[] {
    this.#endPiece()
    const pieces = this.#pieces
    this.#pieces = []
    this.#pieceLines = 0
    return pieces
  }

  #reserve(count: number): void {
    const needed = this.#used + count
    if (needed <= this.#bytes.length) return
    if (needed > PIECE_BYTES) this.#endPiece()
    const least = this.#pieces.length > 0 ? PIECE_BYTES : 2 * this.#bytes.length
    const larger = Buffer.allocUnsafe(Math.max(this.#used + count, Math.min(least, PIECE_BYTES)))
    this.#bytes.copy(larger, 0, 0, this.#used)
    this.#bytes = larger
  }

  #endPiece(): void {
    if (this.#lines > 0) {
      this.#pieces.push({ lines: this.#bytes.subarray(0, this.#used), count: this.#lines })
      this.#pieceLines += this.#lines
    }
    this.#bytes = EMPTY
    this.#used = 0
    this.#lines = 0
  }
}

/** Yields each line without its newline; JSON contains no other. */
export function* splitLines(lines: Buffer): Generator<Buffer> {
  let start = 0
  for (let end = lines.indexOf(NEWLINE); end >= 0; end = lines.indexOf(NEWLINE, start)) {
    yield lines.subarray(start, end)
    start = end + 1
  }
}
