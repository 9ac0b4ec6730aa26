/**
 * Heartbeats answers the heartbeats of workers and acknowledges how far each of their leases is on disk.
 *
 * Answers use only what is already on disk and wait for no commit, so heartbeats continue when the disk is full. The
 * instant of the last heartbeat is stored now and then.
 */
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import { isLoopback } from '../../protocol/loopback.ts'
import type { WorkerCapabilities } from '../../protocol/worker.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { HostContext } from '../host-context.ts'
import type { LeaseAcknowledgements } from '../leases/lease-acknowledgements.ts'
import type { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import type { Setbacks } from './setbacks.ts'
import { WORKER, type WorkerEvent } from './worker.machine.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'

/** While a worker is connected, the stored instant of its last heartbeat lies behind by at most this. */
export const WORKER_LAST_SEEN_LAG_MS = 5 * 60_000

export interface HeartbeatsPorts
  extends Pick<HostContext, 'clock' | 'instant' | 'system' | 'requestScheduling'> {
  readonly acknowledgements: LeaseAcknowledgements
  readonly connections: WorkerConnections
  readonly reconciliation: LeaseReconciliation
  readonly setbacks: Setbacks
  readonly undeliveredDiscards: UndeliveredDiscards
  readonly trustedClock: TrustedClock
  /** Capabilities of a worker changed. */
  readonly onWorkersChanged: () => void
}

export class Heartbeats {
  readonly #ports: HeartbeatsPorts

  constructor(ports: HeartbeatsPorts) {
    this.#ports = ports
  }

  onHeartbeat(connection: WorkerConnection, worker: EnrolledWorker, frame: WorkerFrameOf<'heartbeat'>): void {
    const { clock, system, reconciliation, connections, undeliveredDiscards } = this.#ports
    worker.lastSeenAt = clock.now()
    if (worker.attachSessions !== frame.attachSessions) {
      worker.attachSessions = frame.attachSessions
      this.#ports.onWorkersChanged()
    }
    const capabilities = keepEnding(frame.capabilities, worker)
    const known = worker.context.capabilities
    if (capabilities !== undefined && !isEqual(capabilities, known)) {
      const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities }
      system.send(WORKER, worker.id, seen)
      this.#ports.onWorkersChanged()
      // A worker that ends can use no more than before.
      if (!isEqual({ ...capabilities, ending: undefined }, { ...known, ending: undefined }))
        this.#ports.setbacks.clear(worker)
    } else storeLastSeen(system, worker, WORKER_LAST_SEEN_LAG_MS)
    if (!worker.context.proven) {
      const proven: WorkerEvent = { type: 'proven' }
      system.send(WORKER, worker.id, proven)
    }
    undeliveredDiscards.onHeartbeat(worker.id, connection.number, frame.sentAt)
    reconciliation.reconcile(connection, worker, frame.leases)
    connections.send(connection, {
      type: 'heartbeat-ack',
      state: worker.state,
      echo: frame.sentAt,
      ...this.#compareClocks(connection, worker, frame),
    })
    this.#ports.acknowledgements.acknowledgeAll(connection, worker, frame.sentAt)
  }

  /** A worker on the host's machine has the same clock as the host, so it confirms nothing. */
  #compareClocks(
    { link }: WorkerConnection,
    { id, context }: EnrolledWorker,
    { clock: theirs }: WorkerFrameOf<'heartbeat'>,
  ) {
    const { clock, trustedClock } = this.#ports
    const isElsewhere = !context.local && !isLoopback(link.address)
    if (theirs !== undefined && isElsewhere) trustedClock.onWorkerTime(id, theirs)
    return {
      clock: clock.now(),
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
  const seen: WorkerEvent = { type: 'seen', at: new Date(lastSeenAt).toISOString() }
  system.send(WORKER, id, seen)
}
