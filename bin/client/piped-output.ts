/**
 * Standard output that is no terminal: a program, or a file, that takes what is drawn at its own pace.
 *
 * A terminal keeps this process waiting until it has taken everything; a pipe does not. So what waits for it is
 * bounded: beyond that nothing more is taken until all of it is gone, and then the whole picture is asked for anew. And
 * what was taken is passed on before this process ends, or it would end in the middle of a sentence.
 */
import type { Writable } from 'node:stream'
import type { Cancel } from '../../core/ports.ts'

const WAITING_BYTES_MAX = 8 * 1024 * 1024
const BEHIND = 'whatever reads along is too slow; a part was left out'
const BEHIND_WITH_REDRAW = `${BEHIND}, and the picture follows anew`

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

  /** `wish`: called when something was left out, and there is room again. */
  onRedrawNeeded(wish: () => void): Cancel {
    this.#redrawListeners.add(wish)
    return () => void this.#redrawListeners.delete(wish)
  }

  /** Resolves when all that was taken is passed on, or nobody is there to take it. */
  flush(): Promise<void> {
    return new Promise((resolve) => void this.#stream.write('', () => resolve()))
  }

  #onDrained(): void {
    if (!this.#isFull) return
    this.#isFull = false
    // Nobody is there to be asked for it once the session has ended.
    this.#note(this.#redrawListeners.size === 0 ? BEHIND : BEHIND_WITH_REDRAW)
    for (const wish of [...this.#redrawListeners]) wish()
  }
}
