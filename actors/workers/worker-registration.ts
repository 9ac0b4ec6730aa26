/**
 * Who somebody on a new line is: a machine that presents a token and is enrolled, a worker that comes back, or nobody.
 *
 * Whoever is enrolled hears of it, and gets its credential, only when that is on disk; whoever is turned away as
 * unknown hears that only of what is on disk, because it then throws its credential away. After the greeting, what the
 * worker claims and what it has are brought together.
 */
import { admitRegistration } from '../../core/fleet/admission.ts'
import { workerNameOrDefault } from '../../core/fleet/naming.ts'
import { hashSecret, isSameHash, newCredential, newWorkerId } from '../../core/fleet/token.ts'
import type { Meters, RandomSource } from '../../core/ports.ts'
import { type RunLease, readRegister, type WorkerFrameOf } from '../../protocol/frames.ts'
import { PROTOCOL_VERSION, WORKER_HEARTBEAT_MS, WORKERS_MAX } from '../../protocol/limits.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import type { PairingTokens } from './pairing-tokens.ts'
import type { WorkerEvent, WorkerInput } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'
import type { WorkerConnection, WorkerConnections, WorkerEffect } from './worker-connections.ts'
import type { EnrolledWorker, WorkerRegistry } from './worker-registry.ts'

export interface WorkerRegistrationPorts {
  /** The wall clock, as records write it down. */
  readonly instant: () => string
  readonly random: RandomSource
  readonly meters: Meters
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly pairingTokens: PairingTokens
  readonly connections: WorkerConnections
  readonly reconciliation: LeaseReconciliation
  readonly heartbeats: Heartbeats
  readonly version: string
  /** Something that may let a run be placed. */
  readonly requestScheduling: () => void
  /** Capabilities, connections: what people see of workers. */
  readonly onWorkersChanged: () => void
  /** It is back: what it was to be told while it was away. */
  readonly onReconnected: (workerId: string) => void
}

/** Of the right form, and nobody's. */
const UNKNOWN_WORKER_HASH = '0'.repeat(64)

/** Somebody unknown takes as long as somebody known. */
export function provesCredential(worker: EnrolledWorker | undefined, secret: string): boolean {
  const hash = hashSecret(secret)
  return isSameHash(hash, worker?.context.hash ?? UNKNOWN_WORKER_HASH) && worker !== undefined
}

export class WorkerRegistration {
  readonly #ports: WorkerRegistrationPorts

  constructor(ports: WorkerRegistrationPorts) {
    this.#ports = ports
  }

  /** The first frame of a line. */
  onFirstFrame(connection: WorkerConnection, text: string): void {
    if (connection.refusalPending) return
    const read = readRegister(text)
    if (read.is !== 'register') {
      this.#countOutcome(read.is)
      this.#ports.connections.refuse(connection, read.is, read.reason)
      return
    }
    const { frame } = read
    if (frame.auth.kind === 'pairing') this.#enroll(connection, frame, frame.auth.token)
    else this.#authenticate(connection, frame, frame.auth.workerId, frame.auth.secret)
  }

  /** Its enrollment is on disk. */
  sendWelcome(connection: WorkerConnection): void {
    const { pendingWelcome: welcome, workerId } = connection
    const worker = workerId === undefined ? undefined : this.#ports.workers.get(workerId)
    connection.pendingWelcome = undefined
    if (welcome === undefined || worker === undefined || connection.isClosing) return
    this.#sendRegistered(connection, worker, welcome.credential)
    this.#synchronize(connection, worker, welcome.claims)
  }

  #enroll(connection: WorkerConnection, frame: WorkerFrameOf<'register'>, token: string): void {
    const { system, workers, random, pairingTokens, connections } = this.#ports
    if (workers.size >= WORKERS_MAX) {
      connections.refuse(connection, 'protocol', `this host has ${WORKERS_MAX} workers already; revoke one`)
      return
    }
    const redeemed = pairingTokens.redeem(token)
    const verdict = admitRegistration(redeemed)
    this.#countOutcome(verdict.ok ? 'enrolled' : verdict.code)
    if (!verdict.ok) {
      connections.refuse(connection, verdict.code, verdict.reason)
      return
    }
    const id = newWorkerId(random.bytes(8))
    const credential = newCredential(random.bytes(32))
    const input: WorkerInput = {
      id,
      name: workerNameOrDefault(frame.name, id),
      hash: hashSecret(credential),
      enrolledAt: this.#ports.instant(),
      local: verdict.local,
      capabilities: frame.capabilities,
    }
    if (!system.spawn(WORKER, id, input).ok) {
      connections.closeForRetry(connection, 'the enrollment could not be recorded')
      return
    }
    if (input.local) this.#revokeOlderLocal(id)
    connection.pendingWelcome = { credential, claims: frame.activeLeases }
    connections.markRegistered(connection, id)
    const welcome: WorkerEffect = { type: 'fleet.welcome', connection: connection.number }
    system.runAfterCommit(welcome)
  }

  /** This machine has one worker of the host's own: it enrolls anew only when its old credential is gone. */
  #revokeOlderLocal(id: string): void {
    const { workers, system } = this.#ports
    const revoked: WorkerEvent = { type: 'revoked' }
    for (const { context } of [...workers.all()])
      if (context.local && context.id !== id) system.send(WORKER, context.id, revoked)
  }

  #authenticate(
    connection: WorkerConnection,
    frame: WorkerFrameOf<'register'>,
    workerId: string,
    secret: string,
  ): void {
    const { system, workers, connections } = this.#ports
    // Somebody's record could not be read: nobody can say that it is not enrolled.
    if (system.isDamaged(WORKER, workerId)) {
      connections.closeForRetry(connection, 'the enrollment could not be read')
      return
    }
    const worker = workers.get(workerId)
    const proved = provesCredential(worker, secret)
    if (worker === undefined || !proved) {
      this.#refuseUnknown(connection)
      return
    }
    this.#countOutcome('ok')
    const seen: WorkerEvent = { type: 'seen', at: this.#ports.instant(), capabilities: frame.capabilities }
    system.send(WORKER, workerId, seen)
    connections.markRegistered(connection, workerId)
    this.#sendRegistered(connection, worker, undefined)
    this.#synchronize(connection, worker, frame.activeLeases)
  }

  #refuseUnknown(connection: WorkerConnection): void {
    this.#countOutcome('unauthorized')
    connection.refusalPending = true
    // The worker deletes its credential on this word, so it is said only of what is on disk.
    const refuse: WorkerEffect = {
      type: 'fleet.refuse',
      connection: connection.number,
      code: 'unauthorized',
      reason: 'this worker is not enrolled here, or its credential is another',
    }
    this.#ports.system.runAfterCommit(refuse)
  }

  #sendRegistered(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    credential: string | undefined,
  ): void {
    this.#ports.connections.send(connection, {
      type: 'registered',
      protocolVersion: PROTOCOL_VERSION,
      heartbeatIntervalMs: WORKER_HEARTBEAT_MS,
      hostVersion: this.#ports.version,
      workerId: worker.id,
      name: worker.name,
      state: worker.state,
      ...(credential === undefined ? {} : { credential }),
    })
  }

  /** What it claims and what it has, brought together; then how far each of its leases is on disk. */
  #synchronize(connection: WorkerConnection, worker: EnrolledWorker, claims: readonly RunLease[]): void {
    this.#ports.reconciliation.reconcile(connection, worker, claims)
    this.#ports.heartbeats.acknowledgeAll(connection, worker, undefined)
    this.#ports.onReconnected(worker.id)
    this.#ports.requestScheduling()
    this.#ports.onWorkersChanged()
  }

  #countOutcome(outcome: string): void {
    this.#ports.meters.count('worker_registrations_total', { outcome })
  }
}
