/**
 * RunQueue holds the queued runs in the order of dispatch: by priority, then by the age of their tickets.
 *
 * The runs that wait for a worker only stand in lines, one for each set of workers that can take them. A run that also
 * waits for something else (a blocker, an unmapped repository) stands in no line until it is added again.
 */
import type { WaitReason } from '../../core/fleet/obstacles.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { priorityRank } from '../../protocol/ticket-order.ts'
import { type LineName, precedes, type QueueEntry, QueueLine } from './queue-line.ts'
import { QueueWalk } from './queue-walk.ts'

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
