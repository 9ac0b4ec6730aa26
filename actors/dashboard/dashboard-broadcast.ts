/**
 * Sends every push to all listeners, which the dashboard sockets are, in the order of the calls.
 *
 * One commit may hold tens of thousands of events. Pushes above the limit of one turn of the event loop wait for the
 * next turns, so that they do not delay the process's other work. When too many wait, they are sent at once: the
 * queue stays limited. A listener that throws does not keep the others from receiving the push.
 */
import type { Cancel, Clock, Log } from '../../core/ports.ts'
import type { DashboardPush } from '../../protocol/dashboard.ts'
import { PUSH_TURN_BYTES_MAX, PUSH_WAITING_BYTES_MAX } from '../../protocol/limits.ts'
import { BUG_MESSAGES } from '../runtime/bug-messages.ts'

/** The bytes that a push counts besides its text. */
const PUSH_BYTES_MIN = 256

interface WaitingPush {
  readonly push: DashboardPush
  readonly text: string | undefined
}

const bytesOf = (text: string | undefined): number => PUSH_BYTES_MIN + (text?.length ?? 0)

export class DashboardBroadcast {
  readonly #log: Log
  readonly #clock: Pick<Clock, 'endOfTick'>
  readonly #listeners = new Set<(push: DashboardPush, text?: string) => void>()
  #waiting: WaitingPush[] = []
  #waitingBytes = 0
  #bytesInTurn = 0
  #isTurnEndScheduled = false

  constructor(log: Log, clock: Pick<Clock, 'endOfTick'>) {
    this.#log = log
    this.#clock = clock
  }

  listen(listener: (push: DashboardPush, text?: string) => void): Cancel {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether there is any use in making a push. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  /** How many pushes wait for a later turn. */
  get waitingCount(): number {
    return this.#waiting.length
  }

  /** `text`: the push as JSON, when it is at hand. */
  send(push: DashboardPush, text?: string): void {
    this.#scheduleTurnEnd()
    if (this.#waiting.length === 0 && this.#bytesInTurn < PUSH_TURN_BYTES_MAX) {
      this.#deliver({ push, text })
      return
    }
    this.#waiting.push({ push, text })
    this.#waitingBytes += bytesOf(text)
    if (this.#waitingBytes > PUSH_WAITING_BYTES_MAX) this.#deliverWaiting(Number.POSITIVE_INFINITY)
  }

  #scheduleTurnEnd(): void {
    if (this.#isTurnEndScheduled) return
    this.#isTurnEndScheduled = true
    this.#clock.endOfTick(() => {
      this.#isTurnEndScheduled = false
      this.#bytesInTurn = 0
      if (this.#waiting.length === 0) return
      this.#scheduleTurnEnd()
      this.#deliverWaiting(PUSH_TURN_BYTES_MAX)
    })
  }

  #deliverWaiting(turnBytesMax: number): void {
    let count = 0
    for (const waiting of this.#waiting) {
      if (this.#bytesInTurn >= turnBytesMax) break
      count += 1
      this.#waitingBytes -= bytesOf(waiting.text)
      this.#deliver(waiting)
    }
    this.#waiting = this.#waiting.slice(count)
  }

  #deliver({ push, text }: WaitingPush): void {
    this.#bytesInTurn += bytesOf(text)
    for (const listener of this.#listeners) {
      try {
        listener(push, text)
      } catch (error) {
        this.#log.error({ err: error, push: push.type }, BUG_MESSAGES.pushFailed)
      }
    }
  }
}
