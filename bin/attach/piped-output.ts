/**
 * Writes session output to standard output that is no terminal: a program or a file that reads at its own pace.
 *
 * Writing to a terminal blocks; writing to a pipe does not. So the unread output is limited: above the limit output is
 * dropped until the reader has caught up, and then a redraw of the whole screen is requested. `flush` writes everything
 * that was accepted before this process ends.
 */
import type { Writable } from 'node:stream'
import type { Cancel } from '../../core/ports.ts'

const WAITING_BYTES_MAX = 8 * 1024 * 1024
const BEHIND = 'the reader of the output is too slow; a part was left out'
const BEHIND_WITH_REDRAW = `${BEHIND}, and the whole screen follows again`

export class PipedOutput {
  readonly #stream: Writable
  readonly #note: (text: string) => void
  readonly #redrawListeners = new Set<() => void>()
  #isFull = false

  constructor(stream: Writable, note: (text: string) => void) {
    this.#stream = stream
    this.#note = note
    stream.on('drain', () => this.#onDrained())
  }

  draw(text: string): void {
    if (this.#isFull) return
    this.#stream.write(text)
    this.#isFull = this.#stream.writableLength > WAITING_BYTES_MAX
  }

  /** Calls the listener when output was dropped and the reader has caught up. */
  onRedrawNeeded(listener: () => void): Cancel {
    this.#redrawListeners.add(listener)
    return () => void this.#redrawListeners.delete(listener)
  }

  /** Resolves when all accepted output is written, or the reader is gone. */
  flush(): Promise<void> {
    return new Promise((resolve) => void this.#stream.write('', () => resolve()))
  }

  #onDrained(): void {
    if (!this.#isFull) return
    this.#isFull = false
    // After the end of the session no listener is left to redraw.
    this.#note(this.#redrawListeners.size === 0 ? BEHIND : BEHIND_WITH_REDRAW)
    for (const listener of [...this.#redrawListeners]) listener()
  }
}
