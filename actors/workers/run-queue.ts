/**
 * The runs that wait, in the order in which they are taken: by priority, then by the age of their tickets.
 *
 * A heap whose dead entries are dropped when they come up. What a run waits for besides a worker (a blocker, a
 * repository nobody mapped) keeps it out of the heap until somebody says that this changed.
 */
import { priorityRank } from '../../core/tickets/order.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { popFromHeap, pushToHeap } from '../runtime/heap.ts'

interface QueueEntry {
  readonly runId: string
  readonly rank: number
  readonly age: string
  isQueued: boolean
}

export class RunQueue {
  readonly #heap: QueueEntry[] = []
  readonly #entries = new Map<string, QueueEntry>()
  readonly #blocked = new Map<string, string>()
  /** Every run that is queued and has no lease. */
  readonly #runs = new Map<string, Run>()

  /** Waits for a worker, or for what `waitingFor` says. `ticket`: as its tracker has it now. */
  add(run: Run, waitingFor: string | undefined, ticket: Ticket = run.ticket): void {
    this.remove(run.id)
    this.#runs.set(run.id, run)
    if (waitingFor !== undefined) {
      this.#blocked.set(run.id, waitingFor)
      return
    }
    const entry = {
      runId: run.id,
      rank: priorityRank(ticket.priority),
      age: ticket.createdAt,
      isQueued: true,
    }
    this.#entries.set(run.id, entry)
    pushToHeap(this.#heap, entry, precedes)
  }

  remove(runId: string): void {
    this.#runs.delete(runId)
    this.#blocked.delete(runId)
    const entry = this.#entries.get(runId)
    if (entry === undefined) return
    entry.isQueued = false
    this.#entries.delete(runId)
    // Removed from the middle again and again, the dead would pile up below.
    if (this.#heap.length > 64 && this.#heap.length > this.#entries.size * 2) this.#removeDead()
  }

  /** The first in line; it stays in line. */
  first(): string | undefined {
    for (;;) {
      const top = this.#heap[0]
      if (top === undefined || top.isQueued) return top?.runId
      popFromHeap(this.#heap, precedes)
    }
  }

  /** Out of the order for a while; `back` puts it where it was. */
  setAside(runId: string): (() => void) | undefined {
    const top = this.#heap[0]
    if (top?.runId !== runId) return undefined
    popFromHeap(this.#heap, precedes)
    return () => {
      if (top.isQueued) pushToHeap(this.#heap, top, precedes)
    }
  }

  has(runId: string): boolean {
    return this.#runs.has(runId)
  }

  /** The order in which it stands is still the one that the ticket asks for. */
  isInPlace(runId: string, ticket: Ticket): boolean {
    const entry = this.#entries.get(runId)
    return (
      entry === undefined || (entry.rank === priorityRank(ticket.priority) && entry.age === ticket.createdAt)
    )
  }

  /** What keeps it back besides workers. */
  blockedBy(runId: string): string | undefined {
    return this.#blocked.get(runId)
  }

  /** Those that only wait for a worker. */
  get readyCount(): number {
    return this.#entries.size
  }

  get size(): number {
    return this.#runs.size
  }

  run(runId: string): Run | undefined {
    return this.#runs.get(runId)
  }

  runs(): Iterable<Run> {
    return this.#runs.values()
  }

  #removeDead(): void {
    const alive = this.#heap.filter((entry) => entry.isQueued)
    this.#heap.length = 0
    for (const entry of alive) pushToHeap(this.#heap, entry, precedes)
  }
}

function precedes(a: QueueEntry, b: QueueEntry): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.age !== b.age) return a.age < b.age
  return a.runId < b.runId
}
