/** Event logs in memory, as lists of the chunks that commits brought. */
import type { EventBatches, EventLogs, EventQuery } from '../../core/ports.ts'
import { StoreClosed } from '../errors.ts'
import { type EventsWrite, requireNextIndex, requireRunId } from '../event-order.ts'

export class MemoryEventLogs implements EventLogs {
  readonly #logs = new Map<string, EventsWrite[]>()
  #closed = false

  begin(_runId: string): void {}

  nextIndex(runId: string): number {
    this.#requireOpen()
    return this.#next(runId)
  }

  storedBytes(runId: string): number {
    this.#requireOpen()
    return (this.#logs.get(runId) ?? []).reduce((sum, { lines }) => sum + lines.length, 0)
  }

  async *read(
    runId: string,
    { after = -1, before = Number.POSITIVE_INFINITY, limit = Number.POSITIVE_INFINITY }: EventQuery = {},
  ): EventBatches {
    requireRunId(runId)
    this.#requireOpen()
    let left = limit
    for (const { first, count, lines } of [...(this.#logs.get(runId) ?? [])]) {
      if (left <= 0) return
      const found = Buffer.from(lines)
        .toString()
        .split('\n')
        .slice(Math.max(0, after + 1 - first), Math.min(count, Math.max(0, before - first)))
      left -= found.length
      if (found.length > 0) yield left < 0 ? found.slice(0, left) : found
    }
  }

  async findDamage(): Promise<void> {}

  async remove(runId: string): Promise<void> {
    requireRunId(runId)
    this.#requireOpen()
    this.#logs.delete(runId)
  }

  close(): void {
    this.#closed = true
  }

  /** Called by the database before a commit. Throws when a write would leave a gap or repeat an index. */
  check(writes: readonly EventsWrite[]): void {
    const next = new Map<string, number>()
    for (const { runId, first, count } of writes) {
      requireNextIndex(runId, first, next.get(runId) ?? this.#next(runId))
      next.set(runId, first + count)
    }
  }

  /** Called by the database after all writes of the commit are checked. */
  add(write: EventsWrite): void {
    const log = this.#logs.get(write.runId)
    if (log === undefined) this.#logs.set(write.runId, [write])
    else log.push(write)
  }

  #next(runId: string): number {
    const last = this.#logs.get(runId)?.at(-1)
    return last === undefined ? 0 : last.first + last.count
  }

  #requireOpen(): void {
    if (this.#closed) throw new StoreClosed('the store is closed')
  }
}
