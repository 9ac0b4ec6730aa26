/**
 * The socket of one dashboard: its subscriptions, and the pushes that wait for its hello.
 *
 * A hello may be larger than the backlog limit, so a new dashboard is not slow because of it. Until the hello has been
 * read, pushes wait here (their text is shared by all sockets). Then the queued pushes are sent and the library's topics
 * take over in the same tick, so no push is lost, repeated or out of order.
 */
import type { Clock } from '../../core/ports/clock.ts'
import { DASHBOARD_BACKLOG_BYTES_MAX } from '../../protocol/limits.ts'
import type { ServerSocket } from '../listener-port.ts'
import { BoundedSender, CLOSE } from './bounded-sender.ts'

export const DASHBOARD_FRAMES_PER_10_SECONDS_MAX = 1000

/** A push as bytes. `runId`: the run whose event it is; undefined for all other pushes. */
export interface EncodedPush {
  readonly runId: string | undefined
  readonly text: Uint8Array
}

/** Whether a socket is sent whole lists and records, or what has changed in them (`/ws?changes=1`). */
export type DashboardForm = 'whole' | 'changes'

/** The library's user data of each socket. */
export interface DashboardSocketData {
  readonly form: DashboardForm
  dashboard?: DashboardSocket
}

/** The topics: everything except run events, in each form; the events of all runs; the events of one run. */
export const TOPIC_OF: Readonly<Record<DashboardForm, string>> = { whole: 'all', changes: 'changes' }
export const TOPIC_EVENTS = 'events'
export const runTopic = (runId: string): string => `run:${runId}`

const WINDOW_MS = 10_000

export class DashboardSocket {
  readonly sender: BoundedSender
  readonly form: DashboardForm
  readonly subscribedRuns = new Set<string>()
  readonly #socket: ServerSocket<DashboardSocketData>
  readonly #clock: Clock
  #isLive = false
  #queued: EncodedPush[] = []
  #queuedBytes = 0
  #windowFrom: number
  #framesInWindow = 0

  constructor(socket: ServerSocket<DashboardSocketData>, clock: Clock) {
    this.#socket = socket
    this.form = socket.getUserData().form
    this.#clock = clock
    this.#windowFrom = clock.monotonic()
    this.sender = new BoundedSender(socket, clock, () => {
      for (const topic of socket.getTopics()) socket.unsubscribe(topic)
    })
  }

  /** The hello was read, and pushes arrive through the library's topics. */
  get isLive(): boolean {
    return this.#isLive
  }

  sendHello(hello: string): void {
    this.sender.send(hello)
    if (this.#socket.getBufferedAmount() === 0) this.#subscribeToTopics()
  }

  /** Queues a push until the hello has been read. Returns false when the queue is above the backlog limit. */
  queuePush(push: EncodedPush): boolean {
    this.#queuedBytes += push.text.byteLength
    if (this.#queuedBytes > DASHBOARD_BACKLOG_BYTES_MAX) return false
    this.#queued.push(push)
    return true
  }

  /** Called by the library when the backlog has shrunk. */
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

  /** Counts a frame (pings too), and closes the socket when there are too many. Returns whether there were. */
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
    this.#socket.subscribe(TOPIC_OF[this.form])
    if (this.subscribedRuns.size === 0) this.#socket.subscribe(TOPIC_EVENTS)
    for (const runId of this.subscribedRuns) this.#socket.subscribe(runTopic(runId))
  }
}
