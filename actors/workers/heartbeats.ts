/**
 * Heartbeats answers the heartbeats of workers and acknowledges how far each of their leases is on disk.
 *
 * Answers use only what is already on disk and wait for no commit, so heartbeats continue when the disk is full. The
 * instant of the last heartbeat is stored now and then.
 */
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import { isLoopback } from '../../protocol/loopback.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'
import type { HostContext } from '../host-context.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import { WORKER, type WorkerEvent } from './worker.machine.ts'
import type { WorkerConnection } from './worker-connections.ts'
import type { WorkerManager } from './worker-manager.ts'

/** While a worker is connected, the stored instant of its last heartbeat lies behind by at most this. */
export const WORKER_LAST_SEEN_LAG_MS = 5 * 60_000

type HeartbeatModules = Pick<ModuleViews, 'workers' | 'leases' | 'trustedClock'>

export class Heartbeats {
  readonly #context: HostContext
  readonly #modules: HeartbeatModules
  readonly #reconciliation: LeaseReconciliation
  readonly #manager: WorkerManager

  constructor(
    context: HostContext,
    modules: HeartbeatModules,
    reconciliation: LeaseReconciliation,
    manager: WorkerManager,
  ) {
    this.#context = context
    this.#modules = modules
    this.#reconciliation = reconciliation
    this.#manager = manager
  }

  onHeartbeat(connection: WorkerConnection, worker: EnrolledWorker, frame: WorkerFrameOf<'heartbeat'>): void {
    const { clock, system } = this.#context
    const { connections, undeliveredDiscards, setbacks } = this.#modules.workers
    worker.lastSeenAt = clock.now()
    if (worker.attachSessions !== frame.attachSessions) {
      worker.attachSessions = frame.attachSessions
      this.#manager.schedulePush()
    }
    const capabilities = keepEnding(frame.capabilities, worker)
    const known = worker.context.capabilities
    if (capabilities !== undefined && !isEqual(capabilities, known)) {
      const seen: WorkerEvent = { type: 'seen', at: this.#context.instant(), capabilities }
      system.send(WORKER, worker.id, seen)
      this.#manager.schedulePush()
      // A worker that ends can use no more than before.
      if (!isEqual({ ...capabilities, ending: undefined }, { ...known, ending: undefined }))
        setbacks.clear(worker)
    } else storeLastSeen(system, worker, WORKER_LAST_SEEN_LAG_MS)
    if (!worker.context.proven) system.send(WORKER, worker.id, { type: 'proven' })
    undeliveredDiscards.onHeartbeat(worker.id, connection.number, frame.sentAt)
    this.#reconciliation.reconcile(connection, worker, frame.leases)
    connections.send(connection, {
      type: 'heartbeat-ack',
      state: worker.state,
      echo: frame.sentAt,
      ...this.#compareClocks(connection, worker, frame),
    })
    this.#modules.leases.acknowledgements.acknowledgeAll(connection, worker, frame.sentAt)
  }

  /** A worker on the host's machine has the same clock as the host, so it confirms nothing. */
  #compareClocks(
    { link }: WorkerConnection,
    { id, context }: EnrolledWorker,
    { clock: theirs }: WorkerFrameOf<'heartbeat'>,
  ) {
    const { trustedClock } = this.#modules
    const isElsewhere = !context.local && !isLoopback(link.address)
    if (theirs !== undefined && isElsewhere) trustedClock.onWorkerTime(id, theirs)
    return {
      clock: this.#context.clock.now(),
      ...(trustedClock.now() === undefined ? { clockDoubted: true } : {}),
    }
  }
}

/** An ephemeral worker that ends may have left its seat, so only a registration, which asks for one, takes that back. */
function keepEnding(
  capabilities: WorkerCapabilities | undefined,
  { isEnding }: EnrolledWorker,
): WorkerCapabilities | undefined {
  return isEnding && capabilities !== undefined ? { ...capabilities, ending: true } : capabilities
}

const isEqual = (a: object, b: object | null): boolean => JSON.stringify(a) === JSON.stringify(b)

// ---- when a worker was last heard --------------------------------------------------------------------------------

/** For a host that stops: a connection may end too late for its last commit. */
export function storeLastSeenOfOnline(system: ActorSystem, workers: Iterable<EnrolledWorker>): void {
  for (const worker of [...workers]) if (worker.online) storeLastSeen(system, worker, 0)
}

/**
 * Stores when a worker was last heard. A row for each heartbeat would cost a fleet at rest hundreds of commits an hour, so
 * the disk follows at the end of a connection, and now and then before that.
 *
 * @param lagMs how far the stored instant may lie behind
 */
export function storeLastSeen(
  system: ActorSystem,
  { id, lastSeenAt, context }: EnrolledWorker,
  lagMs: number,
): void {
  const storedAt = Date.parse(context.lastSeenAt ?? context.enrolledAt)
  if (lastSeenAt === undefined || lastSeenAt - storedAt <= lagMs) return
  system.send(WORKER, id, { type: 'seen', at: new Date(lastSeenAt).toISOString() })
}
