/** These functions tell the scheduler which workers are free, and people why they are not. */
import type { WorkerFacts } from '../../core/fleet/obstacles.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'

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
