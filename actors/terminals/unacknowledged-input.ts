/**
 * UnacknowledgedInput keeps the input frames of one view that were sent but may have to be sent again.
 *
 * A dead connection accepts frames and delivers none, and the host notices only later. Host and worker both count the
 * input frames of a view. After a reconnect the worker reports its count, and the host resends exactly the frames that
 * are missing. The buffer keeps the newest frames up to a limit; older input sent into a dead connection is lost.
 */
import { ATTACH_HANDED_OVER_CHARS_MAX } from '../../protocol/limits.ts'

export class UnacknowledgedInput {
  readonly #frames: string[] = []
  #chars = 0
  /** Number of frames sent before the first one that is kept. */
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

  /** Returns and forgets the frames the worker missed. `receivedCount`: frames it received in total. */
  takeMissed(receivedCount: number): readonly string[] {
    const missed = this.#frames.slice(Math.max(0, receivedCount - this.#droppedCount))
    this.#clear()
    this.#droppedCount = receivedCount
    return missed
  }

  /** Keeps no more frames: the worker does not count them, or the view is closed. */
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
