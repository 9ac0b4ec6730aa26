/**
 * WorkerManager derives the consequences of state changes of worker and connection actors, and runs their effects.
 *
 * WorkerManager updates the worker registry, reports lost workers to their leases, sends frames that wait for a commit,
 * and publishes the workers to the dashboards. The registry and WorkerConnections hold all state.
 */
import type { Cancel } from '../../core/ports.ts'
import type { HostContext } from '../host-context.ts'
import type { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseContext, LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { ConnectionContext, WorkerEffect } from './connection.machine.ts'
import type { DispatchBackoff } from './dispatch-backoff.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { storeLastSeen } from './heartbeats.ts'
import type { Setbacks } from './setbacks.ts'
import { WORKER, type WorkerContext, type WorkerEvent } from './worker.machine.ts'
import type { WorkerConnections } from './worker-connections.ts'
import type { WorkerRegistration } from './worker-registration.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** Shortest interval between two pushes of all workers: a large fleet's runs begin and end all the time. */
const WORKERS_PUSH_MS = 100
const WORKERS_PUSH_MS_PER_WORKER = 1
/** An enrollment without a heartbeat after this time is removed: its worker never received the credential. */
const ENROLLMENT_PROOF_MS = 10 * 60_000

export interface WorkerManagerPorts
  extends Pick<HostContext, 'clock' | 'system' | 'timers' | 'requestScheduling'> {
  readonly workers: WorkerRegistry
  readonly connections: WorkerConnections
  readonly registration: WorkerRegistration
  readonly dispatchBackoff: DispatchBackoff
  readonly setbacks: Setbacks
  readonly ephemeralWorkers: EphemeralWorkers
  readonly frameReceiver: FrameReceiver
  readonly undeliveredDiscards: UndeliveredDiscards
  readonly terminals: TerminalSessions
  readonly installation: string
  /** Whether a dashboard is connected. */
  readonly hasViewers: () => boolean
  /** Sends the current workers to the dashboards. */
  readonly pushWorkers: () => void
}

const timerKeyOf = (workerId: string): string => `enrollment ${workerId}`

export class WorkerManager {
  readonly #ports: WorkerManagerPorts
  #cancelPush: Cancel | undefined

  constructor(ports: WorkerManagerPorts) {
    this.#ports = ports
  }

  stop(): void {
    this.#cancelPush?.()
  }

  runEffect(effect: WorkerEffect): void {
    const { connections, workers } = this.#ports
    switch (effect.type) {
      case 'worker.send state': {
        const worker = workers.get(effect.workerId)
        if (worker !== undefined)
          connections.sendToWorker(worker.id, { type: 'worker-state', state: worker.state })
        return
      }
      case 'worker.refuse connection': {
        const connection = connections.get(effect.connection)
        if (connection !== undefined && !connection.isClosing)
          connections.refuse(connection, effect.code, effect.reason)
        return
      }
      case 'worker.send registered': {
        const connection = connections.get(effect.connection)
        if (connection !== undefined) this.#ports.registration.sendWelcome(connection)
        return
      }
      case 'worker.revoke connection':
        connections.sendEvent(effect.connection, { type: 'revoked', reason: effect.reason })
        return
      case 'worker.reject connection': {
        const { connection, code, reason } = effect
        const { installation } = this.#ports
        const named = code === 'unauthorized' ? { installation } : {}
        connections.sendLast(connection, { type: 'rejected', code, reason, ...named }, reason)
        return
      }
      case 'worker.send revoked':
        connections.sendLast(effect.connection, { type: 'revoked', reason: effect.reason }, effect.reason)
        return
      case 'worker.close connection':
        connections.close(effect.connection, effect.reason)
        return
      case 'worker.send discard':
        this.sendDiscard(effect.workerId, effect.runId)
        return
      case 'worker.push workers':
        this.#ports.pushWorkers()
        return
    }
  }

  // ---- workers -----------------------------------------------------------------------------------------------------

  onWorkerChange({ key, before, after, over }: StateChange): void {
    const context = after.context as WorkerContext
    if (over) {
      this.#onWorkerRemoved(key, after.value === 'revoked')
      return
    }
    const { workers, dispatchBackoff, setbacks, system, requestScheduling } = this.#ports
    const state = after.value === 'draining' ? 'draining' : 'active'
    const stateBefore = before === undefined ? undefined : before.value === 'draining' ? 'draining' : 'active'
    const worker = workers.updateWorker(context, state)
    this.#watchProof(key, context.proven, before === undefined)
    const nameBefore = (before?.context as WorkerContext | undefined)?.name
    if (stateBefore !== undefined && stateBefore !== state) {
      if (state === 'active') {
        dispatchBackoff.clear(worker)
        setbacks.clear(worker)
      }
      const sendState: WorkerEffect = { type: 'worker.send state', workerId: key }
      system.runAfterCommit(sendState)
      requestScheduling()
    }
    if (stateBefore !== state || nameBefore !== context.name) this.schedulePush()
  }

  /** Bounds the wait for the credential's proof by the monotonic clock: setting the wall clock must not end it. */
  #watchProof(id: string, proven: boolean, isNew: boolean): void {
    const { timers } = this.#ports
    if (!proven && isNew) timers.set(timerKeyOf(id), 'proof', timers.now() + ENROLLMENT_PROOF_MS)
    else if (proven && !isNew) timers.cancelAll(timerKeyOf(id))
  }

  /** A timer with the prefix of this class is due. */
  onTimer(key: string): void {
    const event: WorkerEvent = { type: 'proof timed out' }
    this.#ports.system.send(WORKER, key.slice('enrollment '.length), event)
  }

  #onWorkerRemoved(id: string, isRevoked: boolean): void {
    const {
      timers,
      terminals,
      frameReceiver,
      undeliveredDiscards,
      workers,
      dispatchBackoff,
      connections,
      requestScheduling,
    } = this.#ports
    const leases = [...(workers.get(id)?.leases ?? [])]
    if (isRevoked) {
      connections.closeRevoked(id, 'the enrollment of this worker was revoked')
      frameReceiver.ignoreWorker(id)
      undeliveredDiscards.dropWorker(id)
    } else connections.closeWorker(id, 'the record of this worker failed; reconnect')
    workers.removeWorker(id)
    dispatchBackoff.remove(id)
    this.#ports.setbacks.remove(id)
    terminals.onWorkerRemoved(id)
    timers.cancelAll(timerKeyOf(id))
    this.#reportWorkerLost(leases)
    requestScheduling()
    this.schedulePush()
  }

  // ---- connections and leases --------------------------------------------------------------------------------------

  onConnectionChange({ after, before, over }: StateChange): void {
    const { workers, connections, requestScheduling } = this.#ports
    const { number, workerId, since } = after.context as ConnectionContext
    if (over) {
      connections.stopReading(number)
      if (workerId !== null && workers.clearConnection(workerId, number)) this.#onConnectionLost(workerId)
      return
    }
    if (workerId === null || since === null || before?.value === after.value) return
    workers.setConnection(workerId, { number, since, address: connections.get(number)?.link.address ?? '' })
    requestScheduling()
    this.schedulePush()
  }

  onLeaseChange({ before, after, over }: StateChange): void {
    const { ephemeralWorkers, undeliveredDiscards } = this.#ports
    const lease = after.context as LeaseContext
    // The number of the worker's runs has changed.
    if (over || before === undefined) this.schedulePush()
    if (over) ephemeralWorkers.check(lease.workerId)
    else if (after.value === 'held' && before !== undefined && before.value !== 'held')
      undeliveredDiscards.onAccepted(lease)
  }

  #onConnectionLost(workerId: string): void {
    const worker = this.#ports.workers.get(workerId)
    this.#ports.terminals.onConnectionLost(workerId)
    if (worker !== undefined) storeLastSeen(this.#ports.system, worker, 0)
    this.#reportWorkerLost([...(worker?.leases ?? [])])
    this.#ports.ephemeralWorkers.check(workerId)
    this.#ports.requestScheduling()
    this.schedulePush()
  }

  #reportWorkerLost(leases: readonly string[]): void {
    const event: LeaseEvent = { type: 'worker lost' }
    for (const id of leases) this.#ports.system.send(LEASE, id, event)
  }

  // ---- frames and pushes -----------------------------------------------------------------------------------------

  /** Sends a reconnected worker everything that waited for it. */
  onReconnected(workerId: string): void {
    const { workers, dispatchBackoff, setbacks } = this.#ports
    const worker = workers.get(workerId)
    if (worker !== undefined) {
      dispatchBackoff.onReconnected(worker)
      setbacks.onReconnected(worker)
    }
    for (const { runId } of this.#ports.undeliveredDiscards.storedFor(workerId))
      this.sendDiscard(workerId, runId)
    this.#ports.terminals.onConnectionRestored(workerId)
  }

  /** Sends one `discard`. Until the worker has surely received it, each registration sends it again. */
  sendDiscard(workerId: string, runId: string): void {
    const { undeliveredDiscards, workers, connections } = this.#ports
    const connection = connections.ofWorker(workers.get(workerId))
    if (connection !== undefined && connections.send(connection, { type: 'discard', runId }))
      undeliveredDiscards.noteSent({ workerId, runId }, connection.number)
  }

  /** Schedules one push of all workers to the dashboards; changes within the interval share it. */
  schedulePush(): void {
    const { clock, workers, hasViewers } = this.#ports
    if (this.#cancelPush !== undefined || !hasViewers()) return
    const waitMs = Math.max(WORKERS_PUSH_MS, workers.size * WORKERS_PUSH_MS_PER_WORKER)
    this.#cancelPush = clock.after(waitMs, () => {
      this.#cancelPush = undefined
      const push: WorkerEffect = { type: 'worker.push workers' }
      this.#ports.system.runAfterCommit(push)
    })
  }
}

interface EphemeralWorkersPorts extends Pick<HostContext, 'clock' | 'system' | 'config' | 'isOpen'> {
  readonly workers: WorkerRegistry
}

/**
 * EphemeralWorkers starts the removal of ephemeral workers: of each that is disconnected and has no lease.
 *
 * The deadline is stored with the worker and ends with its next registration. Connections that break because the host
 * stops count only from the next start.
 */
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
