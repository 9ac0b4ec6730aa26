/** Decides which worker may enroll on a full host, and which may take the seat of a join key again. */
import { WORKERS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { JoinKeys } from './join-keys.ts'
import type { WorkerEvent } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export function hasCapacity(workers: WorkerRegistry): boolean {
  return workers.size < WORKERS_MAX || findEnded(workers) !== undefined
}

/** Removes a worker that has ended before its time, so that many short ones keep no other out. */
export function evictEnded({
  workers,
  system,
}: {
  readonly workers: WorkerRegistry
  readonly system: Pick<ActorSystem, 'send'>
}): void {
  const ended = workers.size < WORKERS_MAX ? undefined : findEnded(workers)
  const revoked: WorkerEvent = { type: 'revoked' }
  if (ended !== undefined) system.send(WORKER, ended.id, revoked)
}

/** Whether a worker may serve again. One that said that it ends may have left its seat, even while it is connected. */
export function maySitAgain({ isEnding, used, context }: EnrolledWorker, joinKeys: JoinKeys): boolean {
  return !isEnding || used > 0 || context.joinKey === undefined || joinKeys.hasFreeSeat(context.joinKey)
}

function findEnded(workers: WorkerRegistry): EnrolledWorker | undefined {
  for (const worker of workers.all()) if (worker.hasEnded) return worker
  return undefined
}
