/**
 * LogLimiter limits the output in the log of one execution to its budget, on the worker: the head is sent as it comes,
 * and the tail is held back and sent when the execution ends.
 *
 * The tail is limited in bytes and events, so an endless log costs a fixed amount of memory. What does not fit between
 * head and tail is left out, and a sentence in the log says how many bytes. Records (status, costs, artifacts, sentences
 * of the service) are sent at once. LogLimiter leaves the budget of the whole run, and of its records, to the host.
 */
import { LOG_TAIL_BYTES_MAX, LOG_TAIL_EVENTS_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { jsonBytes, keepEnd } from '../../protocol/text-budget.ts'
import { executionOutputBytes, isOutput } from './log-budget.ts'

/** The host adds the run, the index and a line end to each event. */
const ADDED_BYTES = 128
const TAIL_SHARE = 1 / 4
/** A smaller tail has no space for an event, so its bytes go to the head. */
const TAIL_BYTES_MIN = 1024

interface HeldEvent {
  readonly event: ReportedEvent
  readonly bytes: number
}

export class LogLimiter {
  readonly #bytesMax: number
  readonly #tailBytesMax: number
  readonly #tail: HeldEvent[] = []
  #tailBytes = 0
  /** Bytes of output, and of records, that were sent. */
  #outputBytes = 0
  #recordBytes = 0
  #leftOutBytes = 0
  #isOverflowing = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
    const tailBytes = Math.min(LOG_TAIL_BYTES_MAX, Math.floor(bytesMax * TAIL_SHARE))
    this.#tailBytesMax = tailBytes < TAIL_BYTES_MIN ? 0 : tailBytes
  }

  /** Accepts the next event. Returns the events to send now. */
  add(event: ReportedEvent): readonly ReportedEvent[] {
    if (!isOutput(event)) return [this.#countRecord(event)]
    const bytes = storedBytes(event)
    if (!this.#isOverflowing && bytes <= this.#freeBytes() - this.#tailBytesMax) {
      this.#outputBytes += bytes
      return [event]
    }
    this.#hold(event, bytes)
    if (this.#isOverflowing) return []
    this.#isOverflowing = true
    return [this.#countRecord(systemText(event.at, this.#describeOverflow()))]
  }

  /** Returns what was held back, behind a sentence about what was left out. */
  end(at: string): readonly ReportedEvent[] {
    this.#trimTail()
    if (this.#leftOutBytes > 0) {
      // The sentence is a record too, and the tail must fit beside it.
      this.#countRecord(systemText(at, describeLeftOut(this.#leftOutBytes)))
      this.#trimTail()
    }
    const tail = this.#tail.splice(0).map(({ event }) => event)
    const leftOutBytes = this.#leftOutBytes
    this.#tailBytes = 0
    this.#leftOutBytes = 0
    return leftOutBytes === 0 ? tail : [systemText(at, describeLeftOut(leftOutBytes)), ...tail]
  }

  /** The bytes of output that may still be sent, the tail included. */
  #freeBytes(): number {
    return executionOutputBytes(this.#bytesMax, this.#recordBytes) - this.#outputBytes
  }

  #countRecord(event: ReportedEvent): ReportedEvent {
    this.#recordBytes += storedBytes(event)
    return event
  }

  #hold(event: ReportedEvent, bytes: number): void {
    const tailBytesMax = this.#tailBytesNow()
    const held = bytes <= tailBytesMax ? { event, bytes } : this.#shorten(event, bytes, tailBytesMax)
    if (held === undefined) return
    this.#tail.push(held)
    this.#tailBytes += held.bytes
    this.#trimTail()
  }

  /** Leaves out the oldest events of a tail that is too large. Records that came meanwhile make the tail smaller. */
  #trimTail(): void {
    const tailBytesMax = this.#tailBytesNow()
    while (this.#tailBytes > tailBytesMax || this.#tail.length > LOG_TAIL_EVENTS_MAX) {
      const oldest = this.#tail.shift()
      if (oldest === undefined) return
      this.#tailBytes -= oldest.bytes
      this.#leftOutBytes += oldest.bytes
    }
  }

  #tailBytesNow(): number {
    return Math.min(this.#tailBytesMax, this.#freeBytes())
  }

  /** Keeps the end of a text that is larger than the whole tail; undefined when nothing of the event is kept. */
  #shorten(event: ReportedEvent, bytes: number, bytesMax: number): HeldEvent | undefined {
    const overhead = event.type === 'log' ? storedBytes({ ...event, text: '' }) : 0
    if (event.type !== 'log' || overhead >= bytesMax) {
      this.#leftOutBytes += bytes
      return undefined
    }
    const shortened = { ...event, text: keepEnd(event.text, bytesMax - overhead) }
    const keptBytes = storedBytes(shortened)
    this.#leftOutBytes += bytes - keptBytes
    return { event: shortened, bytes: keptBytes }
  }

  #describeOverflow(): string {
    const tailBytes = this.#tailBytesNow()
    if (tailBytes < TAIL_BYTES_MIN) return LOG_IS_FULL
    const end = `last ${tailBytes} bytes are kept (sandbox.maxLogMib), and they follow when the execution ends`
    const sentBytes = this.#outputBytes + this.#recordBytes
    return sentBytes === 0
      ? `the log has little space left: of this execution only the ${end}`
      : `the log has reached ${sentBytes} bytes: from here on only its ${end}`
  }
}

/** Returns the bytes of an event in the run's log, or slightly more. */
const storedBytes = (event: ReportedEvent): number => jsonBytes(event) + ADDED_BYTES

export const systemText = (at: string, text: string): ReportedEvent => ({
  type: 'log',
  at,
  stream: 'system',
  text,
})

/** The sentence at the first event that is left out of a log without a tail. */
export const LOG_IS_FULL = 'the log of this run is as large as sandbox.maxLogMib allows: the rest is left out'

/** The sentence that names what is missing in a run's log. */
export const describeLeftOut = (bytes: number): string =>
  `${bytes} bytes of the log are left out here: the log was larger than sandbox.maxLogMib allows`
