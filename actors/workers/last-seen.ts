/**
 * Stores when a worker was last heard. Memory knows the instant of each heartbeat; a row for each would cost a fleet at
 * rest hundreds of commits an hour, so the disk follows at the end of a connection, and now and then before that.
 */
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerEvent } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'

/** For a host that stops: a connection may end too late for its last commit. */
export function storeLastSeenOfOnline(system: ActorSystem, workers: Iterable<EnrolledWorker>): void {
  for (const worker of [...workers]) if (worker.online) storeLastSeen(system, worker, 0)
}

/** @param lagMs how far the stored instant may lie behind */
export function storeLastSeen(
  system: ActorSystem,
  { id, lastSeenAt, context }: EnrolledWorker,
  lagMs: number,
): void {
  const storedAt = Date.parse(context.lastSeenAt ?? context.enrolledAt)
  if (lastSeenAt === undefined || lastSeenAt - storedAt <= lagMs) return
  const seen: WorkerEvent = { type: 'seen', at: new Date(lastSeenAt).toISOString() }
  system.send(WORKER, id, seen)
}
