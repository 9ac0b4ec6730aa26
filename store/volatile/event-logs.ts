/** Event logs in plain lists. Lengths are those that the files would have, so that watermarks mean the same. */
import type { EventLogOpened, EventLogs } from '../../core/ports.ts'
import type { RunEvent } from '../../protocol/run.ts'
import { StoreClosed } from '../failures.ts'
import { requireInOrder } from '../files/event-order.ts'

interface VolatileLog {
  lines: string[]
  bytes: number
}

export class VolatileEventLogs implements EventLogs {
  readonly #logs = new Map<string, VolatileLog>()
  readonly #opened = new Set<string>()
  #closed = false

  async open(runId: string, at: string, knownBytes?: number): Promise<EventLogOpened> {
    if (this.#closed) throw new StoreClosed('the store is closed')
    this.#opened.add(runId)
    const log = this.#logs.get(runId) ?? { lines: [], bytes: 0 }
    const before = log.bytes
    if (before > 0 || knownBytes) this.#logs.set(runId, log)
    const known = knownBytes ?? before
    while (log.bytes > known) log.bytes -= sizeOf(log.lines.pop() ?? '')
    if (log.bytes === before && known <= before) return { bytes: before, next: nextOf(log) }
    const lost = Math.max(0, known - before)
    const cut =
      lost > 0
        ? { bytes: lost, reason: lostText(lost) }
        : { bytes: before - log.bytes, reason: cutText(before - log.bytes) }
    add(log, { runId, index: nextOf(log), at, type: 'log', stream: 'system', text: cut.reason })
    return { bytes: log.bytes, next: nextOf(log), cut }
  }

  async append(runId: string, events: readonly RunEvent[]): Promise<number> {
    this.#requireOpened(runId)
    const log = this.#logs.get(runId) ?? { lines: [], bytes: 0 }
    if (events.length === 0) return log.bytes
    requireInOrder(runId, events, nextOf(log))
    this.#logs.set(runId, log)
    for (const event of events) add(log, event)
    return log.bytes
  }

  async sync(runId: string): Promise<void> {
    this.#requireOpened(runId)
  }

  async read(
    runId: string,
    query: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<RunEvent[]> {
    const { after = -1, limit = Number.POSITIVE_INFINITY } = query
    const events = (this.#logs.get(runId)?.lines ?? []).map(eventOf).filter(({ index }) => index > after)
    return events.slice(0, Math.max(0, limit))
  }

  async close(runId: string): Promise<void> {
    this.#opened.delete(runId)
  }

  async remove(runId: string): Promise<void> {
    if (this.#closed) throw new StoreClosed('the store is closed')
    this.#opened.delete(runId)
    this.#logs.delete(runId)
  }

  closeAll(): void {
    this.#closed = true
    this.#opened.clear()
  }

  #requireOpened(runId: string): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
    if (!this.#opened.has(runId)) throw new Error(`the event log of ${runId} was not opened`)
  }
}

// Only `add` makes lines, from events.
const eventOf = (line: string) => JSON.parse(line) as RunEvent
const sizeOf = (line: string) => Buffer.byteLength(line) + 1
const cutText = (bytes: number) =>
  `${bytes} bytes of unacknowledged events were cut from the end of this log after a crash`
const lostText = (bytes: number) => `${bytes} bytes of acknowledged events are missing from this log`

function nextOf(log: VolatileLog): number {
  const last = log.lines.at(-1)
  return last === undefined ? 0 : eventOf(last).index + 1
}

function add(log: VolatileLog, event: RunEvent): void {
  const line = JSON.stringify(event)
  log.lines.push(line)
  log.bytes += sizeOf(line)
}
