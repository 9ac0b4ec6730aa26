/**
 * RunQueue holds the queued runs in the order of dispatch: by priority, then by the age of their tickets.
 *
 * The runs that wait for a worker only stand in lines, one for each set of workers that can take them. A run that also
 * waits for something else (a blocker, an unmapped repository) stands in no line until it is added again.
 */
import type { WaitReason } from '../../core/fleet/obstacles.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { priorityRank } from '../../protocol/ticket-order.ts'
import { popFromHeap, pushToHeap } from '../runtime/heap.ts'

export class RunQueue {
  readonly #lines = new Map<string, QueueLine>()
  readonly #entries = new Map<string, QueueEntry>()
  readonly #blocked = new Map<string, WaitReason>()
  /** Every run that is queued and has no lease. */
  readonly #runs = new Map<string, Run>()

  /** Queues a run for a worker, or holds it back while `waitingFor` is set. `ticket`: as the tracker has it now. */
  add(run: Run, waitingFor: WaitReason | undefined, ticket: Ticket, name: LineName): void {
    this.remove(run.id)
    this.#runs.set(run.id, run)
    if (waitingFor !== undefined) this.#blocked.set(run.id, waitingFor)
    else this.#entries.set(run.id, this.#lineOf(name).add(run.id, ticket, name.only?.until))
  }

  /** Replaces the record of a queued run, which keeps its place. */
  update(run: Run): void {
    if (this.has(run.id)) this.#runs.set(run.id, run)
  }

  remove(runId: string): void {
    this.#runs.delete(runId)
    this.#blocked.delete(runId)
    const entry = this.#entries.get(runId)
    if (entry === undefined) return
    const { line } = entry
    this.#entries.delete(runId)
    line.remove(entry)
    if (line.isEmpty) this.#lines.delete(line.key)
  }

  /** Begins to place runs. */
  walk(): QueueWalk {
    return new QueueWalk(this.#lines.values())
  }

  lines(): Iterable<QueueLine> {
    return this.#lines.values()
  }

  has(runId: string): boolean {
    return this.#runs.has(runId)
  }

  /** Whether the run's place in the order still fits the ticket's priority and age, and the workers that can take it. */
  isInPlace(runId: string, ticket: Ticket, name: LineName): boolean {
    const entry = this.#entries.get(runId)
    return (
      entry === undefined ||
      (entry.rank === priorityRank(ticket.priority) &&
        entry.age === ticket.createdAt &&
        entry.line.key === name.key)
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

  #lineOf(name: LineName): QueueLine {
    const known = this.#lines.get(name.key)
    if (known !== undefined) return known
    const line = new QueueLine(name)
    this.#lines.set(name.key, line)
    return line
  }
}

// ---- lines -------------------------------------------------------------------------------------------------------

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

/**
 * QueueLine is a part of the queue: the runs that the same workers can take, in the order of dispatch.
 *
 * Runs with equal needs share a line, and each worker has one for the follow-ups whose sandbox it holds. A line whose
 * workers are busy is passed over as a whole. A heap holds the runs; removed entries stay in it until they reach the top.
 */
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

// ---- the walk ----------------------------------------------------------------------------------------------------

/** A line with the run that was its first when the line took its place. */
interface WalkedLine {
  readonly line: QueueLine
  readonly first: QueueEntry
}

const isBefore = (a: WalkedLine, b: WalkedLine): boolean => precedes(a.first, b.first)

/**
 * QueueWalk goes through the lines of the queue in the order of dispatch, to place runs.
 *
 * A run or a whole line that no worker can take now is passed over for the rest of the walk. `end` puts passed runs back.
 */
export class QueueWalk {
  readonly #lines: WalkedLine[] = []
  readonly #passed: QueueEntry[] = []

  constructor(lines: Iterable<QueueLine>) {
    for (const line of lines) this.#push(line)
  }

  /** The first run that was not passed over; it stays in the queue. */
  first(): QueueEntry | undefined {
    for (;;) {
      const [top] = this.#lines
      if (top === undefined || top.line.first() === top.first) return top?.first
      this.#pop()
      this.#push(top.line)
    }
  }

  /** Passes over the first run. */
  passRun(): void {
    const first = this.first()
    if (first === undefined) return
    first.line.removeFirst()
    this.#passed.push(first)
  }

  /** Passes over all runs of the first run's line. */
  passLine(): void {
    if (this.first() !== undefined) this.#pop()
  }

  end(): void {
    for (const entry of this.#passed.splice(0)) entry.line.putBack(entry)
  }

  #push(line: QueueLine): void {
    const first = line.first()
    if (first !== undefined) pushToHeap(this.#lines, { line, first }, isBefore)
  }

  #pop(): void {
    popFromHeap(this.#lines, isBefore)
  }
}
