/**
 * QueueLine is a part of the queue: the runs that the same workers can take, in the order of dispatch.
 *
 * Runs with equal needs share a line, and each worker has one for the follow-ups whose sandbox it holds. A line whose
 * workers are busy is passed over as a whole. A heap holds the runs; removed entries stay in it until they reach the top.
 */

import type { Ticket } from '../../protocol/run.ts'
import { priorityRank } from '../../protocol/ticket-order.ts'
import { popFromHeap, pushToHeap } from '../runtime/heap.ts'

/** Names the workers that can take a run. */
export interface LineName {
  readonly key: string
  /** The only worker that can take it, and until when (wall milliseconds). */
  readonly only?: { readonly workerId: string; readonly until: number }
}

export interface QueueEntry {
  readonly runId: string
  readonly rank: number
  readonly age: string
  readonly line: QueueLine
  isQueued: boolean
}

/** Dead entries below the top are tolerated up to this number. */
const DEAD_TOLERATED = 64

export class QueueLine {
  readonly key: string
  readonly workerId: string | undefined
  readonly #heap: QueueEntry[] = []
  #size = 0
  #until = Number.POSITIVE_INFINITY

  constructor({ key, only }: LineName) {
    this.key = key
    this.workerId = only?.workerId
  }

  get isEmpty(): boolean {
    return this.#size === 0
  }

  /** The earliest wall instant from which another worker may take one of the runs, or might have. */
  get until(): number {
    return this.#until
  }

  add(runId: string, ticket: Ticket, until = Number.POSITIVE_INFINITY): QueueEntry {
    const rank = priorityRank(ticket.priority)
    const entry = { runId, rank, age: ticket.createdAt, line: this, isQueued: true }
    this.#size += 1
    this.#until = Math.min(this.#until, until)
    this.putBack(entry)
    return entry
  }

  remove(entry: QueueEntry): void {
    entry.isQueued = false
    this.#size -= 1
    if (this.#heap.length > DEAD_TOLERATED && this.#heap.length > this.#size * 2) this.#removeDead()
  }

  first(): QueueEntry | undefined {
    for (;;) {
      const top = this.#heap[0]
      if (top === undefined || top.isQueued) return top
      popFromHeap(this.#heap, precedes)
    }
  }

  /** Removes the first run from the order until `putBack`. */
  removeFirst(): void {
    popFromHeap(this.#heap, precedes)
  }

  putBack(entry: QueueEntry): void {
    if (entry.isQueued) pushToHeap(this.#heap, entry, precedes)
  }

  *runIds(): Iterable<string> {
    for (const { isQueued, runId } of this.#heap) if (isQueued) yield runId
  }

  #removeDead(): void {
    const queued = this.#heap.filter((entry) => entry.isQueued)
    this.#heap.length = 0
    for (const entry of queued) pushToHeap(this.#heap, entry, precedes)
  }
}

export function precedes(a: QueueEntry, b: QueueEntry): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.age !== b.age) return a.age < b.age
  return a.runId < b.runId
}
