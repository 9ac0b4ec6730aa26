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
import { BoundedSender, CLOSE } from './bounded-sender.ts'

/** A push as it goes over the wire. `runId`: only for those who follow that run's events. */
export interface EncodedPush {
  readonly runId: string | undefined
  readonly text: Uint8Array
}

/** What the listener carries for each socket. */
export interface DashboardSocketData {
  dashboard?: DashboardSocket
}

/** Everything but run events; every run's events; one run's events. */
export const TOPIC_ALL = 'all'
export const TOPIC_EVENTS = 'events'
export const runTopic = (runId: string): string => `run:${runId}`

const WINDOW_MS = 10_000

export class DashboardSocket {
  readonly sender: BoundedSender
  readonly subscribedRuns = new Set<string>()
  readonly #socket: WebSocket<DashboardSocketData>
  readonly #clock: Clock
  #isLive = false
  #queued: EncodedPush[] = []
  #queuedBytes = 0
  #windowFrom: number
  #framesInWindow = 0

  constructor(socket: WebSocket<DashboardSocketData>, clock: Clock) {
    this.#socket = socket
    this.#clock = clock
    this.#windowFrom = clock.monotonic()
    this.sender = new BoundedSender(socket, clock, () => {
      for (const topic of socket.getTopics()) socket.unsubscribe(topic)
    })
  }

  /** Pushes reach it by the listener's topics. */
  get isLive(): boolean {
    return this.#isLive
  }

  sendHello(hello: string): void {
    this.sender.send(hello)
    if (this.#socket.getBufferedAmount() === 0) this.#subscribeToTopics()
  }

  /** For one who has not joined yet. Answers whether there was room for it. */
  queuePush(push: EncodedPush): boolean {
    this.#queuedBytes += push.text.byteLength
    if (this.#queuedBytes > DASHBOARD_BACKLOG_BYTES_MAX) return false
    this.#queued.push(push)
    return true
  }

  /** The listener's word that more has left the buffer. */
  onDrained(): void {
    this.sender.onDrained()
    if (this.#isLive || !this.sender.isOpen || this.#socket.getBufferedAmount() > 0) return
    for (const { runId, text } of this.#queued) {
      if (runId === undefined || this.#receivesEventsOf(runId)) this.sender.send(text)
    }
    this.#subscribeToTopics()
  }

  closeAsTooSlow(): void {
    this.sender.closeAfterDrain(
      CLOSE.tryAgainLater,
      'too slow: more than the backlog limit was waiting; connect again',
    )
  }

  subscribe(runId: string): void {
    if (this.#isLive && this.subscribedRuns.size === 0) this.#socket.unsubscribe(TOPIC_EVENTS)
    this.subscribedRuns.add(runId)
    if (this.#isLive) this.#socket.subscribe(runTopic(runId))
  }

  unsubscribe(runId: string): void {
    this.subscribedRuns.delete(runId)
    if (!this.#isLive) return
    this.#socket.unsubscribe(runTopic(runId))
    if (this.subscribedRuns.size === 0) this.#socket.subscribe(TOPIC_EVENTS)
  }

  /** Counts one more frame; pings are frames too. */
  exceedsFrameRate(): boolean {
    const now = this.#clock.monotonic()
    if (now - this.#windowFrom >= WINDOW_MS) {
      this.#windowFrom = now
      this.#framesInWindow = 0
    }
    this.#framesInWindow += 1
    if (this.#framesInWindow <= DASHBOARD_FRAMES_PER_10_SECONDS_MAX) return false
    const reason = `more than ${DASHBOARD_FRAMES_PER_10_SECONDS_MAX} frames within 10 seconds`
    this.sender.closeAfterDrain(CLOSE.policy, reason)
    return true
  }

  #receivesEventsOf(runId: string): boolean {
    return this.subscribedRuns.size === 0 || this.subscribedRuns.has(runId)
  }

  #subscribeToTopics(): void {
    this.#isLive = true
    this.#queued = []
    this.#socket.subscribe(TOPIC_ALL)
    if (this.subscribedRuns.size === 0) this.#socket.subscribe(TOPIC_EVENTS)
    for (const runId of this.subscribedRuns) this.#socket.subscribe(runTopic(runId))
  }
}
