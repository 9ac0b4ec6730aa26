/**
 * FreeWorkers keeps the workers with a free slot in the order in which runs are placed, so that a grant costs the same
 * with any number of workers.
 *
 * The order is that of `placeRun` for a run without a preferred worker: most free slots, then fewest used ones, then the
 * smallest id. Workers with equal slots share a group, and a change moves one worker from a group to another. A worker
 * in the order may still be paused or on hold: that changes with time, and is asked for when a run is placed.
 */
import { freeSlots, type WorkerFacts } from './obstacles.ts'

interface SlotGroup<W> {
  readonly free: number
  readonly used: number
  /** By id. */
  readonly workers: W[]
}

export class FreeWorkers<W extends WorkerFacts> {
  /** In the order of preference. */
  readonly #groups: SlotGroup<W>[] = []
  readonly #groupOf = new Map<string, SlotGroup<W>>()

  /** The worker is new, or something about it has changed. */
  update(worker: W): void {
    const free = worker.online && worker.state === 'active' ? freeSlots(worker) : 0
    const before = this.#groupOf.get(worker.id)
    if (before?.free === free && before.used === worker.used) return
    this.remove(worker.id)
    if (free === 0) return
    const group = this.#groupFor(free, worker.used)
    group.workers.splice(placeIn(group.workers, worker.id), 0, worker)
    this.#groupOf.set(worker.id, group)
  }

  remove(id: string): void {
    const group = this.#groupOf.get(id)
    if (group === undefined) return
    this.#groupOf.delete(id)
    group.workers.splice(placeIn(group.workers, id), 1)
    if (group.workers.length === 0) this.#groups.splice(this.#placeOf(group.free, group.used), 1)
  }

  /** The preferred ones first. No worker may change before the iteration ends. */
  *inOrder(): Generator<W, undefined> {
    for (const { workers } of this.#groups) yield* workers
  }

  #groupFor(free: number, used: number): SlotGroup<W> {
    const at = this.#placeOf(free, used)
    const found = this.#groups[at]
    if (found?.free === free && found.used === used) return found
    const group = { free, used, workers: [] }
    this.#groups.splice(at, 0, group)
    return group
  }

  /** The place of such a group, or where it would stand. */
  #placeOf(free: number, used: number): number {
    return firstPlace(
      this.#groups,
      (group) => group.free < free || (group.free === free && group.used >= used),
    )
  }
}

const placeIn = (workers: readonly WorkerFacts[], id: string): number =>
  firstPlace(workers, (worker) => worker.id >= id)

/** The first place whose item, and every one behind it, is so. */
function firstPlace<T>(sorted: readonly T[], isSo: (item: T) => boolean): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isSo(sorted[middle] as T)) high = middle
    else low = middle + 1
  }
  return low
}
