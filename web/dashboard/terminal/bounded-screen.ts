/**
 * Hands a session's output to the screen, and keeps what the screen has not drawn yet within a limit.
 *
 * A session can write faster than a browser draws. Above the limit output is dropped until the screen has caught up,
 * and then a redraw of the whole screen is asked for.
 */
const WAITING_CHARS_MAX = 4 * 1024 * 1024

export interface SlowScreen {
  /** Calls back when the text is drawn. */
  write(text: string, onDrawn: () => void): void
}

export class BoundedScreen {
  readonly #screen: SlowScreen
  readonly #redrawListeners = new Set<() => void>()
  #waiting = 0
  #isFull = false

  constructor(screen: SlowScreen) {
    this.#screen = screen
  }

  draw(text: string): void {
    if (this.#isFull) return
    this.#waiting += text.length
    this.#isFull = this.#waiting > WAITING_CHARS_MAX
    this.#screen.write(text, () => this.#onDrawn(text.length))
  }

  onRedrawNeeded(listener: () => void): () => void {
    this.#redrawListeners.add(listener)
    return () => void this.#redrawListeners.delete(listener)
  }

  #onDrawn(chars: number): void {
    this.#waiting -= chars
    if (!this.#isFull || this.#waiting > 0) return
    this.#isFull = false
    for (const listener of [...this.#redrawListeners]) listener()
  }
}
