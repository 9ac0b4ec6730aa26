/** These functions tell the scheduler which workers are free, and which needs no free worker meets. */
import type { WorkerFacts } from '../../core/fleet/obstacles.ts'
import { placeRun } from '../../core/fleet/placement.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import type { EnrolledWorker } from './worker-registry.ts'

/** A run may wait for a reason of its own, so the question is asked for no run in particular. */
export function isUnmetByAll(
  needs: JobNeeds | undefined,
  workers: Iterable<WorkerFacts>,
  now: number,
): boolean {
  return needs !== undefined && placeRun({ runId: '', needs }, workers, now).is === 'waits'
}

/** A worker's facts for people: its pause ends at an instant of the wall clock. */
export function inWallTime(worker: EnrolledWorker, offsetMs: number): WorkerFacts {
  const { id, name, state, online, max, used, hold, agents, limitsMemory, setbacks } = worker
  const pausedUntil = worker.pausedUntil + offsetMs
  const facts = { id, name, state, online, max, used, agents, limitsMemory, setbacks, pausedUntil }
  return hold === undefined ? facts : { ...facts, hold }
}

export const isAvailable = (worker: EnrolledWorker, now: number): boolean =>
  worker.online &&
  worker.state === 'active' &&
  worker.used < worker.max &&
  worker.pausedUntil <= now &&
  worker.hold === undefined
