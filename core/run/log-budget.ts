/**
 * The budgets of a run: how many bytes of events and artifacts the host stores for it (`sandbox.maxLogMib`,
 * `sandbox.maxArtifactsMib`).
 *
 * A worker may use most of what is left for one execution, so that a later execution still has a log. The host leaves
 * out what a worker reports beyond the budget. Output may fill the budget up to a reserve, which is for records: the
 * few events that tell what became of the run. `LogLimiter` keeps one execution within its part, on the worker.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { LOG_EVENT_BYTES_MAX } from '../../protocol/limits.ts'
import type { ReportedEvent } from '../../protocol/run.ts'
import { jsonBytes, keepEnd, splitLog, UNIT_BYTES_MAX } from '../../protocol/text-budget.ts'

/** The part of a log's budget that only records (status, costs, artifacts, sentences of the service) may use. */
const LOG_RECORDS_BYTES_MAX = 1024 * 1024

const MIB = 1024 * 1024
/** The part of the rest of a budget that one execution may use. */
const EXECUTION_SHARE = 7 / 8
const RECORDS_SHARE = 1 / 16

export const logBudget = ({ sandbox }: ServiceConfig): number => sandbox.maxLogMib * MIB
export const artifactBudget = ({ sandbox }: ServiceConfig): number => sandbox.maxArtifactsMib * MIB

/** Whether an event is output of a process in the sandbox, which may come without end. */
export function isOutput(event: ReportedEvent): boolean {
  return event.type === 'agent' || (event.type === 'log' && event.stream !== 'system')
}

/** Returns the size of the run's log up to which this event is stored. */
export function logBytesMaxFor(event: ReportedEvent, budgetBytes: number): number {
  return isOutput(event) ? outputBytesMax(budgetBytes) : budgetBytes
}

/** Returns the bytes of events that the next execution of a run may report. */
export function executionLogBytes(budgetBytes: number, storedBytes: number): number {
  return Math.max(0, Math.floor((outputBytesMax(budgetBytes) - storedBytes) * EXECUTION_SHARE))
}

/**
 * Returns the bytes of output that an execution may report besides its records. Records first use the part of the rest
 * that the execution leaves to later ones, because the host counts them towards the limit of output.
 */
export function executionOutputBytes(executionBytes: number, recordBytes: number): number {
  const restBytes = Math.floor(executionBytes / EXECUTION_SHARE)
  return Math.max(0, Math.min(executionBytes, restBytes - recordBytes))
}

function outputBytesMax(budgetBytes: number): number {
  return budgetBytes - Math.min(LOG_RECORDS_BYTES_MAX, Math.floor(budgetBytes * RECORDS_SHARE))
}

// ---- one execution, on the worker --------------------------------------------------------------------------------

/** The end of a log above its budget, which the worker holds back in memory until the execution ends. */
export const LOG_TAIL_BYTES_MAX = 2 * 1024 * 1024
export const LOG_TAIL_EVENTS_MAX = 1_000

/** The host adds the run, the index and a line end to each event. */
const ADDED_BYTES = 128
const TAIL_SHARE = 1 / 4
/** A smaller tail has no space for an event, so its bytes go to the head. */
const TAIL_BYTES_MIN = 1024

interface HeldEvent {
  readonly event: ReportedEvent
  readonly bytes: number
}

/**
 * Limits the output in the log of one execution to its budget: the head is sent as it comes, and the tail is held back
 * and sent when the execution ends.
 *
 * The tail is limited in bytes and events, so an endless log costs a fixed amount of memory. What does not fit between
 * head and tail is left out, and a sentence in the log says how many bytes. Records (status, costs, artifacts, sentences
 * of the service) are sent at once. The class leaves the budget of the whole run, and of its records, to the host.
 */
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

const systemText = (at: string, text: string): ReportedEvent => ({
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

/**
 * Splits a log event whose text is too long for one event, at line ends where possible. No text is lost. Other events,
 * and log events that fit, are returned as they are.
 */
export function splitLogEvent(event: ReportedEvent): readonly ReportedEvent[] {
  if (event.type !== 'log' || event.text.length * UNIT_BYTES_MAX <= LOG_EVENT_BYTES_MAX) return [event]
  const parts = splitLog(event.text)
  return parts.length <= 1 ? [event] : parts.map((text) => ({ ...event, text }))
}
