/**
 * One dashboard: what it follows, and what it has yet to be told.
 *
 * A hello may be larger than the backlog that pushes are allowed, and a dashboard on its first breath is not a slow
 * one. Until the hello has left, pushes wait here, one text shared by all who wait; then they are sent and the
 * listener's topics take over, in the same breath, so that nothing is lost, doubled or out of order.
 */
import type { WebSocket } from 'uWebSockets.js'
import type { Clock } from '../../core/ports.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX, DASHBOARD_FRAMES_PER_10_SECONDS_MAX } from '../../protocol/limits.ts'
import { CLOSE, Outlet } from './bounded-sender.ts'

/** A push as it goes over the wire. `runId`: only for those who follow that run's events. */
export interface Told {
  readonly runId: string | undefined
  readonly text: Uint8Array
}

/** What the listener carries for each socket. */
export interface Seated {
  viewer?: Viewer
}

/** Everything but run events; every run's events; one run's events. */
export const TOPIC_ALL = 'all'
export const TOPIC_EVENTS = 'events'
export const topicOf = (runId: string): string => `run:${runId}`

const WINDOW_MS = 10_000

export class Viewer {
  readonly outlet: Outlet
  readonly runs = new Set<string>()
  readonly #socket: WebSocket<Seated>
  readonly #clock: Clock
  #joined = false
  #missed: Told[] = []
  #missedBytes = 0
  #windowFrom: number
  #framesInWindow = 0

  constructor(socket: WebSocket<Seated>, clock: Clock) {
    this.#socket = socket
    this.#clock = clock
    this.#windowFrom = clock.monotonic()
    this.outlet = new Outlet(socket, clock, () => {
      for (const topic of socket.getTopics()) socket.unsubscribe(topic)
    })
  }

  /** Pushes reach it by the listener's topics. */
  get joined(): boolean {
    return this.#joined
  }

  greet(hello: string): void {
    this.outlet.send(hello)
    if (this.#socket.getBufferedAmount() === 0) this.#join()
  }

  /** For one who has not joined yet. Answers whether there was room for it. */
  keep(told: Told): boolean {
    this.#missedBytes += told.text.byteLength
    if (this.#missedBytes > DASHBOARD_BACKLOG_BYTES_MAX) return false
    this.#missed.push(told)
    return true
  }

  /** The listener's word that more has left the buffer. */
  drained(): void {
    this.outlet.drained()
    if (this.#joined || !this.outlet.open || this.#socket.getBufferedAmount() > 0) return
    for (const { runId, text } of this.#missed) {
      if (runId === undefined || this.#follows(runId)) this.outlet.send(text)
    }
    this.#join()
  }

  tooSlow(): void {
    this.outlet.leave(CLOSE.tryAgainLater, 'too slow: more than the backlog limit was waiting; connect again')
  }

  follow(runId: string): void {
    if (this.#joined && this.runs.size === 0) this.#socket.unsubscribe(TOPIC_EVENTS)
    this.runs.add(runId)
    if (this.#joined) this.#socket.subscribe(topicOf(runId))
  }

  unfollow(runId: string): void {
    this.runs.delete(runId)
    if (!this.#joined) return
    this.#socket.unsubscribe(topicOf(runId))
    if (this.runs.size === 0) this.#socket.subscribe(TOPIC_EVENTS)
  }

  /** Counts one more frame; pings are frames too. */
  tooOften(): boolean {
    const now = this.#clock.monotonic()
    if (now - this.#windowFrom >= WINDOW_MS) {
      this.#windowFrom = now
      this.#framesInWindow = 0
    }
    this.#framesInWindow += 1
    if (this.#framesInWindow <= DASHBOARD_FRAMES_PER_10_SECONDS_MAX) return false
    const reason = `more than ${DASHBOARD_FRAMES_PER_10_SECONDS_MAX} frames within 10 seconds`
    this.outlet.leave(CLOSE.policy, reason)
    return true
  }

  #follows(runId: string): boolean {
    return this.runs.size === 0 || this.runs.has(runId)
  }

  #join(): void {
    this.#joined = true
    this.#missed = []
    this.#socket.subscribe(TOPIC_ALL)
    if (this.runs.size === 0) this.#socket.subscribe(TOPIC_EVENTS)
    for (const runId of this.runs) this.#socket.subscribe(topicOf(runId))
  }
}
