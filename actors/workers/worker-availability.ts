/** These functions tell the scheduler which worker takes a run, and people why the others do not. */
import type { PlacementRequest, WorkerFacts } from '../../core/fleet/obstacles.ts'
import { firstFit } from '../../core/fleet/placement.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** A worker's facts for people: its pause ends at an instant of the wall clock. */
export function inWallTime(worker: EnrolledWorker, offsetMs: number): WorkerFacts {
  const { id, name, state, online, max, used, hold, fullDisk, agents, limitsMemory, publishes, setbacks } =
    worker
  const { refusal } = worker
  const pausedUntil = worker.pausedUntil + offsetMs
  const facts = { id, name, state, online, max, used, agents, limitsMemory, publishes, setbacks, pausedUntil }
  return {
    ...facts,
    ...(hold === undefined ? {} : { hold }),
    ...(fullDisk === undefined ? {} : { fullDisk }),
    ...(refusal === undefined ? {} : { refusal }),
  }
}

export const isAvailable = (worker: EnrolledWorker, now: number): boolean =>
  worker.online &&
  worker.state === 'active' &&
  worker.used < worker.max &&
  worker.pausedUntil <= now &&
  worker.hold === undefined

export function hasAvailable(workers: WorkerRegistry, now: number): boolean {
  for (const worker of workers.inPlacementOrder()) if (isAvailable(worker, now)) return true
  return false
}

/** The worker that gets the run now. */
export function workerFor(
  workers: WorkerRegistry,
  request: PlacementRequest,
  now: number,
): EnrolledWorker | undefined {
  const { requiredWorker, preferredWorker } = request
  const holder = workers.get(requiredWorker ?? preferredWorker ?? '')
  const onHolder = holder === undefined ? undefined : firstFit(request, [holder], now)
  return requiredWorker === undefined
    ? (onHolder ?? firstFit(request, workers.inPlacementOrder(), now))
    : onHolder
}

/** Whether no run with the same needs, or for the same worker, is placed now. One run may wait for a reason of its own. */
export function canTakeNone(
  workers: WorkerRegistry,
  { needs, requiredWorker }: PlacementRequest,
  now: number,
): boolean {
  if (requiredWorker === undefined)
    return needs !== undefined && workerFor(workers, { runId: '', needs }, now) === undefined
  const holder = workers.get(requiredWorker)
  return holder === undefined || !isAvailable(holder, now)
}
