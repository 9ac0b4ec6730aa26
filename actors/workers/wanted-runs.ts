/**
 * WantedRuns counts the queued runs that one more machine could take now.
 *
 * The count is kept until the queue or the fleet changes, because supervisors and autoscalers poll it.
 */
import type { PlacementRequest } from '../../core/fleet/obstacles.ts'
import { awaitsAnyWorker, experienceOf, isHeldByOperator } from '../../core/fleet/wanted.ts'
import type { Run } from '../../protocol/run.ts'
import type { RunQueue } from './run-queue.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export class WantedRuns {
  readonly #workers: WorkerRegistry
  readonly #queue: RunQueue
  readonly #requestOf: (run: Run) => PlacementRequest
  #known: { readonly count: number; readonly fleetVersion: number } | undefined

  constructor(workers: WorkerRegistry, queue: RunQueue, requestOf: (run: Run) => PlacementRequest) {
    this.#workers = workers
    this.#queue = queue
    this.#requestOf = requestOf
  }

  /** The queue or a setback has changed. */
  forget(): void {
    this.#known = undefined
  }

  count(): number {
    const fleetVersion = this.#workers.version
    if (this.#known?.fleetVersion !== fleetVersion) this.#known = { count: this.#count(), fleetVersion }
    return this.#known.count
  }

  #count(): number {
    const machines = [...this.#workers.all()].filter(({ context }) => !context.local)
    if (isHeldByOperator(machines.map(({ state, context: { drainedBy } }) => ({ state, drainedBy }))))
      return 0
    const experience = experienceOf(machines)
    return [...this.#queue.readyRuns()].filter((run) => awaitsAnyWorker(this.#requestOf(run), experience))
      .length
  }
}
