/** `KeyScan` finds keys in a content that arrives in pieces, and counts its lines. It keeps a few hundred bytes of it. */
import { findKeys, KEY_CHARS_MAX } from './key-forms.ts'

export interface FoundValue {
  readonly kind: string
  /** Counted from 1. */
  readonly line: number
  readonly value: string
}

const BYTES_AT_ONCE_MAX = 64 * 1024

export class KeyScan {
  readonly #onKey: (found: FoundValue) => void
  #text = ''
  /** The text before this place was searched. */
  #searchedTo = 0
  /** The line in which `#text` begins. */
  #line = 1

  constructor(onKey: (found: FoundValue) => void) {
    this.#onKey = onKey
  }

  /** Begins another content. */
  reset(): void {
    this.#text = ''
    this.#searchedTo = 0
    this.#line = 1
  }

  push(piece: Uint8Array): void {
    for (let from = 0; from < piece.length; from += BYTES_AT_ONCE_MAX) {
      const bytes = piece.subarray(from, from + BYTES_AT_ONCE_MAX)
      this.#text += Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
      this.#search(this.#text.length - KEY_CHARS_MAX)
      this.#dropSearched()
    }
  }

  /** The content is whole. */
  end(): void {
    this.#search(this.#text.length)
  }

  /** Searches for keys that begin before `to`, behind which the rest of such a key may stand. */
  #search(to: number): void {
    if (to <= this.#searchedTo) return
    for (const { kind, at, value } of findKeys(this.#text, this.#searchedTo, to))
      this.#onKey({ kind, value, line: this.#line + countLines(this.#text, at) })
    this.#searchedTo = to
  }

  #dropSearched(): void {
    const dropped = this.#searchedTo - KEY_CHARS_MAX
    if (dropped <= 0) return
    this.#line += countLines(this.#text, dropped)
    this.#text = this.#text.slice(dropped)
    this.#searchedTo = KEY_CHARS_MAX
  }
}

function countLines(text: string, to: number): number {
  let lines = 0
  for (let at = text.indexOf('\n'); at !== -1 && at < to; at = text.indexOf('\n', at + 1)) lines += 1
  return lines
}
