/** Draws at most four frames a second, however often somebody asks, and once for each second of the clock. */
import type { Cancel, Clock } from '../../core/ports.ts'

const FRAME_MS_MIN = 250
const SECOND_MS = 1_000

export class FrameTimer {
  readonly #draw: () => void
  readonly #clock: Pick<Clock, 'now' | 'monotonic' | 'after'>
  #drawnAt = Number.NEGATIVE_INFINITY
  #cancelFrame: Cancel | undefined
  #cancelTick: Cancel | undefined

  constructor(draw: () => void, clock: Pick<Clock, 'now' | 'monotonic' | 'after'>) {
    this.#draw = draw
    this.#clock = clock
  }

  start(): void {
    if (this.#cancelTick === undefined) this.#tick()
  }

  /** Draws now, or as soon as the last frame is old enough. */
  request(): void {
    // Drawing begins with `start`.
    if (this.#cancelFrame !== undefined || this.#cancelTick === undefined) return
    const wait = this.#drawnAt + FRAME_MS_MIN - this.#clock.monotonic()
    if (wait <= 0) this.#drawNow()
    else this.#cancelFrame = this.#clock.after(wait, () => this.#drawNow())
  }

  stop(): void {
    this.#cancelFrame?.()
    this.#cancelFrame = undefined
    this.#cancelTick?.()
    this.#cancelTick = undefined
  }

  #drawNow(): void {
    this.#cancelFrame = undefined
    this.#drawnAt = this.#clock.monotonic()
    this.#draw()
  }

  #tick(): void {
    const rest = SECOND_MS - (this.#clock.now() % SECOND_MS)
    this.#cancelTick = this.#clock.after(rest, () => this.#tick())
    this.request()
  }
}
