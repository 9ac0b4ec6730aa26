/**
 * RunQueue holds the queued runs in the order of dispatch: by priority, then by the age of their tickets.
 *
 * A heap holds the runs that wait for a worker only; removed entries stay in it until they reach the top. A run that
 * also waits for something else (a blocker, an unmapped repository) stays outside the heap until it is added again.
 */
import type { WaitReason } from '../../core/fleet/obstacles.ts'
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
  readonly #blocked = new Map<string, WaitReason>()
  /** Every run that is queued and has no lease. */
  readonly #runs = new Map<string, Run>()

  /** Queues a run for a worker, or holds it back while `waitingFor` is set. `ticket`: as the tracker has it now. */
  add(run: Run, waitingFor: WaitReason | undefined, ticket: Ticket = run.ticket): void {
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
    // Removed entries below the top would pile up without limit.
    if (this.#heap.length > 64 && this.#heap.length > this.#entries.size * 2) this.#removeDead()
  }

  /** The first run that waits for a worker only; it stays in the queue. */
  first(): string | undefined {
    for (;;) {
      const top = this.#heap[0]
      if (top === undefined || top.isQueued) return top?.runId
      popFromHeap(this.#heap, precedes)
    }
  }

  /** Takes the first run out of the order and returns a function that puts it back in its place. */
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

  /** Whether the run's place in the order still fits the ticket's priority and age. */
  isInPlace(runId: string, ticket: Ticket): boolean {
    const entry = this.#entries.get(runId)
    return (
      entry === undefined || (entry.rank === priorityRank(ticket.priority) && entry.age === ticket.createdAt)
    )
  }

  /** The reason besides workers for which the run is held back. */
  blockedBy(runId: string): WaitReason | undefined {
    return this.#blocked.get(runId)
  }

  /** Number of runs before this one in the order; undefined for a run that waits for more than a worker. */
  countBefore(runId: string): number | undefined {
    const own = this.#entries.get(runId)
    if (own === undefined) return undefined
    let count = 0
    for (const entry of this.#entries.values()) if (precedes(entry, own)) count += 1
    return count
  }

  /** Number of runs that wait for a worker only. */
  get readyCount(): number {
    return this.#entries.size
  }

  /** The runs that wait for a worker only. */
  *readyRuns(): Iterable<Run> {
    for (const runId of this.#entries.keys()) {
      const run = this.#runs.get(runId)
      if (run !== undefined) yield run
    }
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
    const queued = this.#heap.filter((entry) => entry.isQueued)
    this.#heap.length = 0
    for (const entry of queued) pushToHeap(this.#heap, entry, precedes)
  }
}

function precedes(a: QueueEntry, b: QueueEntry): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  if (a.age !== b.age) return a.age < b.age
  return a.runId < b.runId
}
