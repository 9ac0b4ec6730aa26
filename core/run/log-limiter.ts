/**
 * LogLimiter limits the log of one execution to its budget, on the worker: the head is sent as it comes, and the tail
 * is held back and sent when the execution ends.
 *
 * The tail is limited in bytes and events, so an endless log costs a fixed amount of memory. What does not fit between
 * head and tail is left out, and a sentence in the log says how many bytes. Events besides output (status, costs,
 * artifacts) are sent at once. LogLimiter leaves the budget of the whole run to the host.
 */
import { LOG_TAIL_BYTES_MAX, LOG_TAIL_EVENTS_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { jsonBytes, keepEnd } from '../../protocol/text-budget.ts'

/** The host adds the run, the index and a line end to each event. */
const ADDED_BYTES = 128
const TAIL_SHARE = 1 / 4

interface HeldEvent {
  readonly event: ReportedEvent
  readonly bytes: number
}

export class LogLimiter {
  readonly #bytesMax: number
  readonly #tailBytesMax: number
  readonly #tail: HeldEvent[] = []
  #tailBytes = 0
  #sentBytes = 0
  #leftOutBytes = 0
  #isOverflowing = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
    this.#tailBytesMax = Math.min(LOG_TAIL_BYTES_MAX, Math.floor(bytesMax * TAIL_SHARE))
  }

  /** Accepts the next event. Returns the events to send now. */
  add(event: ReportedEvent): readonly ReportedEvent[] {
    const bytes = jsonBytes(event) + ADDED_BYTES
    if (event.type !== 'log' && event.type !== 'agent') return this.#sendRecord(event, bytes)
    if (!this.#isOverflowing && this.#sentBytes + bytes <= this.#bytesMax - this.#tailBytesMax) {
      this.#sentBytes += bytes
      return [event]
    }
    this.#hold(event, bytes)
    if (this.#isOverflowing) return []
    this.#isOverflowing = true
    return [systemText(event.at, this.#describeOverflow())]
  }

  /** Returns what was held back, behind a sentence about what was left out. */
  end(at: string): readonly ReportedEvent[] {
    const tail = this.#tail.splice(0).map(({ event }) => event)
    const leftOutBytes = this.#leftOutBytes
    this.#tailBytes = 0
    this.#leftOutBytes = 0
    return leftOutBytes === 0 ? tail : [systemText(at, describeLeftOut(leftOutBytes)), ...tail]
  }

  #sendRecord(event: ReportedEvent, bytes: number): readonly ReportedEvent[] {
    if (this.#sentBytes + bytes > this.#bytesMax) {
      this.#leftOutBytes += bytes
      return []
    }
    this.#sentBytes += bytes
    return [event]
  }

  #hold(event: ReportedEvent, bytes: number): void {
    const held = bytes <= this.#tailBytesMax ? { event, bytes } : this.#shorten(event, bytes)
    if (held === undefined) return
    this.#tail.push(held)
    this.#tailBytes += held.bytes
    while (this.#tailBytes > this.#tailBytesMax || this.#tail.length > LOG_TAIL_EVENTS_MAX) {
      const oldest = this.#tail.shift()
      if (oldest === undefined) return
      this.#tailBytes -= oldest.bytes
      this.#leftOutBytes += oldest.bytes
    }
  }

  /** Keeps the end of a text that is larger than the whole tail; undefined when nothing of the event is kept. */
  #shorten(event: ReportedEvent, bytes: number): HeldEvent | undefined {
    const overhead = event.type === 'log' ? jsonBytes({ ...event, text: '' }) + ADDED_BYTES : 0
    if (event.type !== 'log' || overhead >= this.#tailBytesMax) {
      this.#leftOutBytes += bytes
      return undefined
    }
    const shortened = { ...event, text: keepEnd(event.text, this.#tailBytesMax - overhead) }
    const keptBytes = jsonBytes(shortened) + ADDED_BYTES
    this.#leftOutBytes += bytes - keptBytes
    return { event: shortened, bytes: keptBytes }
  }

  #describeOverflow(): string {
    return `the log has reached ${this.#sentBytes} bytes: from here on only its last ${this.#tailBytesMax} bytes are kept (sandbox.maxLogMib), and they follow when the execution ends`
  }
}

export const systemText = (at: string, text: string): ReportedEvent => ({
  type: 'log',
  at,
  stream: 'system',
  text,
})

/** The sentence that names what is missing in a run's log. */
export const describeLeftOut = (bytes: number): string =>
  `${bytes} bytes of the log are left out here: the log was larger than sandbox.maxLogMib allows`
