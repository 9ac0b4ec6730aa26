/**
 * What was typed into one view and handed to its worker's line, as long as it may have to be said again.
 *
 * A line that breaks without a sound takes what is said on it and delivers nothing; that is found out much later. Both
 * ends count the frames of a view, and a new line begins with the worker's count: what it never had is said again, and
 * nothing that it had. Only the newest of it is kept; what was typed before that into a dead line is lost.
 */
import { ATTACH_HANDED_OVER_CHARS_MAX } from '../../protocol/limits.ts'

export class UnacknowledgedInput {
  readonly #frames: string[] = []
  #chars = 0
  /** How many frames there were before those that are kept. */
  #droppedCount = 0
  #isStopped = false

  get isEmpty(): boolean {
    return this.#frames.length === 0
  }

  add(data: string): void {
    if (this.#isStopped) return
    this.#frames.push(data)
    this.#chars += data.length
    while (this.#chars > ATTACH_HANDED_OVER_CHARS_MAX) this.#dropOldest()
  }

  /** Of all that was ever handed over the worker has had so many frames. Answers the others, which are noted no more. */
  takeMissed(taken: number): readonly string[] {
    const missed = this.#frames.slice(Math.max(0, taken - this.#droppedCount))
    this.#clear()
    this.#droppedCount = taken
    return missed
  }

  /** Nobody counts at the other end, or nobody is there any more: nothing is kept from now on. */
  stop(): void {
    this.#isStopped = true
    this.#clear()
  }

  #clear(): void {
    this.#frames.length = 0
    this.#chars = 0
  }

  #dropOldest(): void {
    this.#chars -= this.#frames.shift()?.length ?? 0
    this.#droppedCount += 1
  }
}
