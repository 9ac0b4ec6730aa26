/** A stream that keeps what a command prints, and is a terminal or a pipe as a test says. */
import { EventEmitter } from 'node:events'

export class MemoryStream extends EventEmitter {
  readonly isTTY: boolean
  readonly columns: number
  text = ''
  /** What the next writes answer: false when the reader is slow. */
  isReady = true

  constructor({ columns }: { readonly columns?: number } = {}) {
    super()
    this.isTTY = columns !== undefined
    this.columns = columns ?? 0
  }

  write(text: string): boolean {
    this.text += text
    return this.isReady
  }

  /** Returns what was printed since the last call. */
  read(): string {
    const { text } = this
    this.text = ''
    return text
  }
}
