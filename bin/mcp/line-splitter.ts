/** Splits bytes into lines of UTF-8 text. A line above the limit is dropped as it arrives, and reported once. */

const NEWLINE = 0x0a

/** Empty lines are left out. */
export type SplitLine = { readonly kind: 'line'; readonly text: string } | { readonly kind: 'too long' }

export class LineSplitter {
  readonly #bytesMax: number
  #parts: Buffer[] = []
  #bytes = 0
  #isDropping = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The lines that the chunk completes, one by one. */
  *push(chunk: Buffer): Generator<SplitLine> {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      yield* this.#keep(chunk.subarray(from, at))
      yield* this.end()
      from = at + 1
    }
    yield* this.#keep(chunk.subarray(from))
  }

  /** The input is over: a last line needs no newline. */
  *end(): Generator<SplitLine> {
    const text = Buffer.concat(this.#parts).toString('utf8')
    const wasDropped = this.#isDropping
    this.#forget()
    this.#isDropping = false
    if (!wasDropped && text.trim() !== '') yield { kind: 'line', text }
  }

  *#keep(part: Buffer): Generator<SplitLine> {
    if (this.#isDropping || part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes <= this.#bytesMax) return
    this.#forget()
    this.#isDropping = true
    yield { kind: 'too long' }
  }

  #forget(): void {
    this.#parts = []
    this.#bytes = 0
  }
}
