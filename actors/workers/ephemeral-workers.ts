/**
 * EphemeralWorkers starts the removal of ephemeral workers: of each that is disconnected and has no lease.
 *
 * The deadline is stored with the worker and ends with its next registration. Connections that break because the host
 * stops count only from the next start.
 */
import type { Clock } from '../../core/ports.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { WorkerEvent } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface EphemeralWorkersPorts {
  readonly clock: Clock
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly config: () => ServiceConfig
  /** False while the host stops. */
  readonly isOpen: () => boolean
}

export class EphemeralWorkers {
  readonly #ports: EphemeralWorkersPorts

  constructor(ports: EphemeralWorkersPorts) {
    this.#ports = ports
  }

  /** The host has started, and no worker is connected yet. */
  start(): void {
    for (const worker of [...this.#ports.workers.all()]) this.#check(worker)
  }

  /** The worker may have lost its connection or its last lease. */
  check(workerId: string): void {
    const worker = this.#ports.workers.get(workerId)
    if (worker !== undefined) this.#check(worker)
  }

  #check({ id, context, online, leases }: EnrolledWorker): void {
    const { clock, system, config, isOpen } = this.#ports
    if (context.ephemeral !== true || online || leases.size > 0 || !isOpen()) return
    const until = clock.now() + config().fleet.ephemeralSeconds * 1_000
    const vacated: WorkerEvent = { type: 'vacated', until }
    system.send(WORKER, id, vacated)
  }
}
