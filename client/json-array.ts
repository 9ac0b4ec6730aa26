/**
 * Reads the elements of a JSON array while it arrives, so that a long log is never in memory as a whole.
 *
 * It looks for the ends of elements only, by brackets and quotes; `JSON.parse` reads each element.
 */

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const OPENING_OBJECT = 0x7b
const OPENING = [0x5b, OPENING_OBJECT]
const CLOSING = [0x5d, 0x7d]

/** Throws when the text is no array, or ends before its bracket. */
export async function* readJsonArray(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  const splitter = new ElementSplitter()
  for await (const chunk of chunks) yield* splitter.push(chunk)
  if (!splitter.isComplete) throw new Error('the answer ended too early')
}

class ElementSplitter {
  readonly #decoder = new TextDecoder()
  /** The beginning of an element whose end has not arrived. */
  #held: Uint8Array[] = []
  #depth = 0
  #isInText = false
  #isEscaped = false
  #isComplete = false

  get isComplete(): boolean {
    return this.#isComplete
  }

  *push(chunk: Uint8Array): Generator<unknown> {
    if (this.#isComplete) return
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0
      if (this.#isInText) this.#passText(byte)
      else if (byte === QUOTE) this.#isInText = true
      else if (this.#depth === 0 && byte === OPENING_OBJECT) throw new Error('the answer is no list')
      else if (OPENING.includes(byte) && this.#depth++ === 0) from = at + 1
      else if (byte === COMMA && this.#depth === 1) {
        yield* this.#parse(chunk.subarray(from, at))
        from = at + 1
      } else if (CLOSING.includes(byte) && --this.#depth === 0) {
        yield* this.#parse(chunk.subarray(from, at))
        this.#isComplete = true
        return
      }
    }
    if (this.#depth === 0) throw new Error('the answer is no list')
    this.#held.push(chunk.subarray(from))
  }

  #passText(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (byte === BACKSLASH) this.#isEscaped = true
    else if (byte === QUOTE) this.#isInText = false
  }

  *#parse(end: Uint8Array): Generator<unknown> {
    let text = ''
    for (const part of this.#held) text += this.#decoder.decode(part, { stream: true })
    text += this.#decoder.decode(end)
    this.#held = []
    if (text.trim() !== '') yield JSON.parse(text)
  }
}
