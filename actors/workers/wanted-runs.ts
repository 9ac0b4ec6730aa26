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
  #known:
    | {
        readonly count: number
        /** By worker, the runs that it alone can take. */
        readonly awaited: ReadonlyMap<string, number>
        readonly fleetVersion: number
      }
    | undefined

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
    if (this.#known?.fleetVersion !== fleetVersion)
      this.#known = { count: this.#count(), awaited: this.#countAwaited(), fleetVersion }
    return this.#known.count
  }

  /** Counts the queued runs that this worker alone can take, because it holds their sandbox. */
  countAwaiting(workerId: string): number {
    this.count()
    return this.#known?.awaited.get(workerId) ?? 0
  }

  #countAwaited(): ReadonlyMap<string, number> {
    const awaited = new Map<string, number>()
    for (const run of this.#queue.readyRuns()) {
      const { requiredWorker, waitingFor } = this.#requestOf(run)
      if (requiredWorker !== undefined && waitingFor === undefined)
        awaited.set(requiredWorker, (awaited.get(requiredWorker) ?? 0) + 1)
    }
    return awaited
  }

  #count(): number {
    const machines = [...this.#workers.all()].filter(({ context }) => !this.#workers.isOwn(context))
    if (isHeldByOperator(machines.map(({ state, context: { drainedBy } }) => ({ state, drainedBy }))))
      return 0
    const experience = experienceOf(machines)
    return [...this.#queue.readyRuns()].filter((run) => awaitsAnyWorker(this.#requestOf(run), experience))
      .length
  }
}
