/**
 * Sends every push to all listeners, which the dashboard sockets are, in the order of the calls.
 *
 * One commit may hold tens of thousands of events. Pushes above the limit of one turn of the event loop wait for the
 * next turns, so that they do not delay the process's other work. When too many wait, they are sent at once: the
 * queue stays limited. A listener that throws does not keep the others from receiving the push.
 */

import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { OutgoingPush } from '../../core/ports/connections.ts'
import type { Log } from '../../core/ports/log.ts'
import { BUG_MESSAGES } from '../runtime/commit-loop.ts'

/** Bytes of pushes in one turn of the event loop, and of those that may wait for the next turns. */
export const PUSH_TURN_BYTES_MAX = 1024 * 1024
export const PUSH_WAITING_BYTES_MAX = 32 * 1024 * 1024

/** The bytes that a push counts besides its JSON. */
const PUSH_BYTES_MIN = 256

const bytesOf = (push: OutgoingPush): number =>
  PUSH_BYTES_MIN + (push.type === 'run-event' ? push.json.length : 0)

/** A turn of the event loop, with the bytes of the pushes that were delivered in it. */
type Turn = { bytes: number }

export class DashboardBroadcast {
  readonly #log: Log
  readonly #clock: Pick<Clock, 'endOfTick'>
  readonly #listeners = new Set<(push: OutgoingPush) => void>()
  readonly #onUnwatched: (() => void)[] = []
  readonly #onRead: (() => void)[] = []
  #waiting: OutgoingPush[] = []
  #waitingBytes = 0
  /** Undefined until the first push of a turn. */
  #turn: Turn | undefined

  constructor(log: Log, clock: Pick<Clock, 'endOfTick'>) {
    this.#log = log
    this.#clock = clock
  }

  listen(listener: (push: OutgoingPush) => void): Cancel {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
      if (this.hasListeners) return
      this.#waiting = []
      this.#waitingBytes = 0
      for (const drop of this.#onUnwatched) drop()
    }
  }

  /** Calls `drop` when nobody listens any more: what waits to be sent is older than what the next dashboard reads. */
  onUnwatched(drop: () => void): void {
    this.#onUnwatched.push(drop)
  }

  /** Calls `note` when a dashboard reads the state of this moment, which may differ from what was sent last. */
  onRead(note: () => void): void {
    this.#onRead.push(note)
  }

  noteRead(): void {
    for (const note of this.#onRead) note()
  }

  /** Whether there is any use in making a push. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  /** How many pushes wait for a later turn. */
  get waitingCount(): number {
    return this.#waiting.length
  }

  send(push: OutgoingPush): void {
    if (!this.hasListeners) return
    const turn = this.#beginTurn()
    if (this.#waiting.length === 0 && turn.bytes < PUSH_TURN_BYTES_MAX) {
      this.#deliver(push, turn)
      return
    }
    this.#waiting.push(push)
    this.#waitingBytes += bytesOf(push)
    if (this.#waitingBytes > PUSH_WAITING_BYTES_MAX) this.#deliverWaiting(turn, Number.POSITIVE_INFINITY)
  }

  /** Returns the turn that is under way. */
  #beginTurn(): Turn {
    if (this.#turn !== undefined) return this.#turn
    const turn = { bytes: 0 }
    this.#turn = turn
    this.#clock.endOfTick(() => {
      this.#turn = undefined
      if (this.#waiting.length > 0) this.#deliverWaiting(this.#beginTurn(), PUSH_TURN_BYTES_MAX)
    })
    return turn
  }

  #deliverWaiting(turn: Turn, turnBytesMax: number): void {
    let count = 0
    for (const push of this.#waiting) {
      if (turn.bytes >= turnBytesMax || !this.hasListeners) break
      count += 1
      this.#waitingBytes -= bytesOf(push)
      this.#deliver(push, turn)
    }
    this.#waiting = this.#waiting.slice(count)
  }

  #deliver(push: OutgoingPush, turn: Turn): void {
    turn.bytes += bytesOf(push)
    for (const listener of this.#listeners) {
      try {
        listener(push)
      } catch (error) {
        this.#log.error({ err: error, push: push.type }, BUG_MESSAGES.pushFailed)
      }
    }
  }
}
