/**
 * A window on the events of a run: the end first, older events on demand, new ones as they come.
 *
 * Pages and pushes are combined by the events' indexes, so nothing is lost or repeated, whatever the connection does. The
 * window keeps two indexes and no events: whoever listens keeps what it shows, and may give up old events again. Pushes
 * that wait for a page are bounded; more are dropped, and read later.
 */
import type { DashboardFrame } from '../protocol/dashboard.ts'
import type { RunEvent } from '../protocol/run.ts'
import { HostRefusal, reasonOf } from './errors.ts'
import type { EventRange } from './run-events.ts'

/** A window reads the events of its run here. */
export interface RunLogSource {
  readEvents(range: EventRange, signal: AbortSignal): AsyncIterable<RunEvent>
  /** Subscribes to the events of the run until the returned function is called. Each subscription is confirmed. */
  watch(onFrame: (frame: DashboardFrame) => void): () => void
  /** Events with a lower index belong to nobody; the source does not tell them. */
  readonly first?: number
}

/** Shows the events of a window. */
export interface RunLogListener {
  /**
   * Events without a hole towards those delivered before, which are older or newer than them.
   *
   * @param range the indexes that were asked for; one that no event has, the host has lost
   * @returns a promise for older events that are taken over bit by bit
   */
  onEvents(events: readonly RunEvent[], end: 'older' | 'newer', range: IndexRange): void | Promise<void>
  /** So much is missing that the window begins again at the end of the log. */
  onReset(): void
  onState(state: RunLogState): void
}

/** Indexes from `from` up to and without `to`. */
export type IndexRange = { readonly from: number; readonly to: number }

export interface RunLogState {
  /** Whether the end of the log was read. */
  readonly isRead: boolean
  readonly isReadingOlder: boolean
  /** Older events that are not in the window. */
  readonly older: number
  /** Why reading fails; it is tried again. */
  readonly failure: string | undefined
}

export const EVENTS_PAGE = 1_000
/** A longer absence is not read page by page. */
const ABSENCE_EVENTS_MAX = 20_000
/** Pushed events that wait while missing ones are read. */
const WAITING_EVENTS_MAX = 5_000
const RETRY_MS = 1_000
const SLICE_MS = 8

export class RunLog {
  readonly #source: RunLogSource
  readonly #listener: RunLogListener
  readonly #controller = new AbortController()
  readonly #unwatch: () => void
  readonly #beginning: number
  /** The window: events from the first index up to and without the next one. */
  #first: number
  #next: number | undefined
  /** The end of the log as the host has confirmed it. */
  #known = 0
  #waiting: RunEvent[] = []
  #isReading = false
  #isDelivering = false
  #older: Promise<void> | undefined
  #failure: string | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(source: RunLogSource, listener: RunLogListener) {
    this.#source = source
    this.#listener = listener
    this.#beginning = source.first ?? 0
    this.#first = this.#beginning
    this.#unwatch = source.watch((frame) => this.#onFrame(frame))
    void this.#readNewer()
  }

  close(): void {
    this.#unwatch()
    clearTimeout(this.#timer)
    this.#controller.abort()
  }

  /** Reads the page in front of the window; with an index, all pages down to that index. */
  loadOlder(until = this.#first - EVENTS_PAGE): Promise<void> {
    if (this.#next === undefined || this.#first === this.#beginning || until >= this.#first)
      return this.#older ?? Promise.resolve()
    this.#older ??= this.#readOlder(Math.max(this.#beginning, until)).finally(() => {
      this.#older = undefined
      this.#report()
    })
    this.#report()
    return this.#older
  }

  /** The listener has given up all events before this index. */
  forgetBefore(index: number): void {
    this.#first = Math.max(this.#first, index)
    this.#report()
  }

  /** The index of the first event of the window. */
  get first(): number {
    return this.#first
  }

  // ---- newer events ------------------------------------------------------------------------------------------------

  #onFrame(frame: DashboardFrame): void {
    if (frame.type === 'subscribed') {
      this.#known = frame.next
      // Everything before this moment may be missing, and all later events are pushed.
      if (this.#next === undefined || frame.next !== this.#next) void this.#readNewer()
    } else if (frame.type === 'run-event') {
      this.#waiting.push(frame.event)
      if (this.#waiting.length > WAITING_EVENTS_MAX) this.#waiting = this.#waiting.slice(-1)
      this.#scheduleDelivery()
    }
  }

  /** Frames come many at a time, and are delivered together. */
  #scheduleDelivery(): void {
    if (this.#isDelivering) return
    this.#isDelivering = true
    queueMicrotask(() => {
      this.#isDelivering = false
      this.#deliverWaiting()
    })
  }

  #deliverWaiting(): void {
    if (this.#isReading || this.#next === undefined || this.#controller.signal.aborted) return
    const events: RunEvent[] = []
    const from = this.#next
    let next = from
    for (const event of this.#waiting) {
      if (event.index > next) break
      if (event.index === next) next = events.push(event) + from
    }
    this.#waiting = this.#waiting.filter(({ index }) => index >= next)
    this.#next = next
    if (events.length > 0) void this.#listener.onEvents(events, 'newer', { from, to: next })
    if (this.#waiting.length > 0) void this.#readNewer()
  }

  async #readNewer(): Promise<void> {
    if (this.#isReading || this.#controller.signal.aborted) return
    this.#isReading = true
    clearTimeout(this.#timer)
    try {
      if (this.#next !== undefined && Math.abs(this.#known - this.#next) > ABSENCE_EVENTS_MAX) this.#reset()
      await (this.#next === undefined ? this.#readEnd() : this.#readAfter(this.#next))
      this.#failure = undefined
    } catch (error) {
      this.#onFailure(error)
    } finally {
      this.#isReading = false
    }
    this.#report()
    if (this.#failure !== undefined) return
    if (this.#next !== undefined && this.#known > this.#next) void this.#readNewer()
    else this.#deliverWaiting()
  }

  async #readEnd(): Promise<void> {
    const known = this.#known
    const events = await this.#read({ tail: EVENTS_PAGE })
    const next = Math.max((events.at(-1)?.index ?? -1) + 1, known, this.#beginning)
    this.#next = next
    this.#first = Math.max(this.#beginning, Math.min(events[0]?.index ?? next, next - EVENTS_PAGE))
    void this.#listener.onEvents(events, 'newer', { from: this.#first, to: next })
  }

  async #readAfter(index: number): Promise<void> {
    let next = index
    for (;;) {
      // Events that are confirmed later may be missing in this page.
      const known = this.#known
      const events = await this.#read({ after: next - 1, limit: EVENTS_PAGE })
      const from = next
      // The host has confirmed more than it can read.
      const isComplete = events.length < EVENTS_PAGE
      next = Math.max((events.at(-1)?.index ?? -1) + 1, isComplete ? known : 0, from)
      if (next === from) return
      this.#next = next
      void this.#listener.onEvents(events, 'newer', { from, to: next })
      if (isComplete) return
    }
  }

  #reset(): void {
    this.#next = undefined
    this.#first = this.#beginning
    this.#listener.onReset()
  }

  #onFailure(error: unknown): void {
    if (this.#controller.signal.aborted) return
    this.#failure = reasonOf(error)
    if (error instanceof HostRefusal && error.isLasting) return
    this.#timer = setTimeout(() => void this.#readNewer(), RETRY_MS)
  }

  // ---- older events ------------------------------------------------------------------------------------------------

  /** Delivers all pages together, because each delivery moves everything that follows it. */
  async #readOlder(until: number): Promise<void> {
    const pages: RunEvent[][] = []
    const to = this.#first
    let from = to
    try {
      while (from > until) {
        pages.unshift(await this.#read({ before: from, limit: EVENTS_PAGE }))
        from = Math.max(this.#beginning, from - EVENTS_PAGE)
      }
      this.#failure = undefined
    } catch (error) {
      if (this.#controller.signal.aborted) return
      this.#failure = reasonOf(error)
    }
    // The window may have moved meanwhile.
    if (this.#first !== to || from === to) return
    this.#first = from
    await this.#listener.onEvents(pages.flat(), 'older', { from, to })
  }

  async #read(range: EventRange): Promise<RunEvent[]> {
    const { signal } = this.#controller
    const events: RunEvent[] = []
    let began = performance.now()
    for await (const event of this.#source.readEvents(range, signal)) {
      events.push(event)
      if (performance.now() - began < SLICE_MS) continue
      // A page has more to do than to read.
      await new Promise((resolve) => setTimeout(resolve))
      began = performance.now()
    }
    signal.throwIfAborted()
    return events
  }

  #report(): void {
    if (this.#controller.signal.aborted) return
    this.#listener.onState({
      isRead: this.#next !== undefined,
      isReadingOlder: this.#older !== undefined,
      older: this.#first - this.#beginning,
      failure: this.#failure,
    })
  }
}
