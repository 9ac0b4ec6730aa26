/** Splits bytes into lines of UTF-8 text. A line above the limit is dropped as it arrives, and reported once. */

const NEWLINE = 0x0a

export interface LineListener {
  onLine(line: string): void
  onTooLong(): void
}

export class LineSplitter {
  readonly #bytesMax: number
  readonly #listener: LineListener
  #parts: Buffer[] = []
  #bytes = 0
  #isDropping = false

  constructor(bytesMax: number, listener: LineListener) {
    this.#bytesMax = bytesMax
    this.#listener = listener
  }

  push(chunk: Buffer): void {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, at))
      this.end()
      from = at + 1
    }
    this.#keep(chunk.subarray(from))
  }

  /** The input is over: a last line needs no newline. */
  end(): void {
    const line = Buffer.concat(this.#parts).toString('utf8')
    const wasDropped = this.#isDropping
    this.#forget()
    this.#isDropping = false
    if (!wasDropped && line.trim() !== '') this.#listener.onLine(line)
  }

  #keep(part: Buffer): void {
    if (this.#isDropping || part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
    if (this.#bytes <= this.#bytesMax) return
    this.#forget()
    this.#isDropping = true
    this.#listener.onTooLong()
  }

  #forget(): void {
    this.#parts = []
    this.#bytes = 0
  }
}
