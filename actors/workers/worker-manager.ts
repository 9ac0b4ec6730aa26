/**
 * WorkerManager derives the consequences of state changes of worker and connection actors, and runs their effects.
 *
 * WorkerManager updates the worker registry, reports lost workers to their leases, sends frames that wait for a commit,
 * and publishes the workers to the dashboards. The registry and WorkerConnections hold all state.
 */

import type { Cancel } from '../../core/ports/clock.ts'
import type { HostContext } from '../host-context.ts'
import type { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseContext } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { timerKind } from '../runtime/timer-kind.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { ConnectionContext, WorkerEffect } from './connection.machine.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { storeLastSeen } from './heartbeats.ts'
import type { WorkersView } from './module.ts'
import { WORKER, type WorkerContext } from './worker.machine.ts'
import type { WorkerConnection } from './worker-connections.ts'
import type { WorkerRegistry } from './worker-registry.ts'

/** Shortest interval between two pushes of all workers: a large fleet's runs begin and end all the time. */
const WORKERS_PUSH_MS = 100
const WORKERS_PUSH_MS_PER_WORKER = 1
/** An enrollment without a heartbeat after this time is removed: its worker never received the credential. */
const ENROLLMENT_PROOF_MS = 10 * 60_000

export const ENROLLMENT_TIMER = timerKind<'proof'>('enrollment')

export class WorkerManager {
  readonly #context: HostContext
  readonly #workers: WorkersView
  readonly #frameReceiver: FrameReceiver
  readonly #terminals: TerminalSessions
  readonly #ephemeralWorkers: EphemeralWorkers
  readonly #sendWelcome: (connection: WorkerConnection) => void
  #cancelPush: Cancel | undefined

  /** @param sendWelcome called once the enrollment of the connection's worker is on disk */
  constructor(
    context: HostContext,
    { workers, leases, terminals }: Pick<ModuleViews, 'workers' | 'leases' | 'terminals'>,
    ephemeralWorkers: EphemeralWorkers,
    sendWelcome: (connection: WorkerConnection) => void,
  ) {
    this.#context = context
    this.#workers = workers
    this.#frameReceiver = leases.frameReceiver
    this.#terminals = terminals.sessions
    this.#ephemeralWorkers = ephemeralWorkers
    this.#sendWelcome = sendWelcome
  }

  stop(): void {
    this.#cancelPush?.()
  }

  runEffect(effect: WorkerEffect): void {
    const { connections, registry } = this.#workers
    switch (effect.type) {
      case 'worker.send state': {
        const worker = registry.get(effect.workerId)
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
        if (connection !== undefined) this.#sendWelcome(connection)
        return
      }
      case 'worker.revoke connection':
        connections.sendEvent(effect.connection, { type: 'revoked', reason: effect.reason })
        return
      case 'worker.reject connection': {
        const { connection, code, reason } = effect
        const { installation } = this.#context.store
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
        this.#context.broadcast.send({ type: 'workers', workers: registry.views() })
        return
    }
  }

  // ---- workers -----------------------------------------------------------------------------------------------------

  onWorkerChange({ key, before, after, over }: StateChange<WorkerContext>): void {
    const context = after.context
    if (over) {
      this.#onWorkerRemoved(key, after.value === 'revoked')
      return
    }
    const { system, requestScheduling } = this.#context
    const { registry, dispatchBackoff, setbacks } = this.#workers
    const state = after.value === 'draining' ? 'draining' : 'active'
    const stateBefore = before === undefined ? undefined : before.value === 'draining' ? 'draining' : 'active'
    const worker = registry.updateWorker(context, state)
    this.#watchProof(key, context.proven, before === undefined)
    const nameBefore = before?.context.name
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
    const { timers } = this.#context
    if (!proven && isNew) timers.set(ENROLLMENT_TIMER.key(id), 'proof', timers.now() + ENROLLMENT_PROOF_MS)
    else if (proven && !isNew) timers.cancelAll(ENROLLMENT_TIMER.key(id))
  }

  onProofTimedOut(id: string): void {
    this.#context.system.send(WORKER, id, { type: 'proof timed out' })
  }

  #onWorkerRemoved(id: string, isRevoked: boolean): void {
    const { timers, requestScheduling } = this.#context
    const { undeliveredDiscards, registry, dispatchBackoff, setbacks, connections } = this.#workers
    const leases = [...(registry.get(id)?.leases ?? [])]
    if (isRevoked) {
      connections.closeRevoked(id, 'the enrollment of this worker was revoked')
      this.#frameReceiver.ignoreWorker(id)
      undeliveredDiscards.dropWorker(id)
    } else connections.closeWorker(id, 'the record of this worker failed; reconnect')
    registry.removeWorker(id)
    dispatchBackoff.remove(id)
    setbacks.remove(id)
    this.#terminals.onWorkerRemoved(id)
    timers.cancelAll(ENROLLMENT_TIMER.key(id))
    this.#reportWorkerLost(leases)
    requestScheduling()
    this.schedulePush()
  }

  // ---- connections and leases --------------------------------------------------------------------------------------

  onConnectionChange({ after, before, over }: StateChange<ConnectionContext>): void {
    const { registry, connections } = this.#workers
    const { number, workerId, since } = after.context
    if (over) {
      connections.stopReading(number)
      if (workerId !== null && registry.clearConnection(workerId, number)) this.#onConnectionLost(workerId)
      return
    }
    if (workerId === null || since === null || before?.value === after.value) return
    registry.setConnection(workerId, { number, since, address: connections.get(number)?.link.address ?? '' })
    this.#context.requestScheduling()
    this.schedulePush()
  }

  onLeaseChange({ before, after, over }: StateChange<LeaseContext>): void {
    const lease = after.context
    // The number of the worker's runs has changed.
    if (over || before === undefined) this.schedulePush()
    if (over) this.#ephemeralWorkers.check(lease.workerId)
    else if (after.value === 'held' && before !== undefined && before.value !== 'held')
      this.#workers.undeliveredDiscards.onAccepted(lease)
  }

  #onConnectionLost(workerId: string): void {
    const worker = this.#workers.registry.get(workerId)
    this.#terminals.onConnectionLost(workerId)
    if (worker !== undefined) storeLastSeen(this.#context.system, worker, 0)
    this.#reportWorkerLost([...(worker?.leases ?? [])])
    this.#ephemeralWorkers.check(workerId)
    this.#context.requestScheduling()
    this.schedulePush()
  }

  #reportWorkerLost(leases: readonly string[]): void {
    for (const id of leases) this.#context.system.send(LEASE, id, { type: 'worker lost' })
  }

  // ---- frames and pushes -----------------------------------------------------------------------------------------

  /** Sends a reconnected worker everything that waited for it. */
  onReconnected(workerId: string): void {
    const { registry, dispatchBackoff, setbacks } = this.#workers
    const worker = registry.get(workerId)
    if (worker !== undefined) {
      dispatchBackoff.onReconnected(worker)
      setbacks.onReconnected(worker)
    }
    for (const { runId } of this.#workers.undeliveredDiscards.storedFor(workerId))
      this.sendDiscard(workerId, runId)
    this.#terminals.onConnectionRestored(workerId)
  }

  /** Sends one `discard`. Until the worker has surely received it, each registration sends it again. */
  sendDiscard(workerId: string, runId: string): void {
    const { undeliveredDiscards, registry, connections } = this.#workers
    const connection = connections.ofWorker(registry.get(workerId))
    if (connection !== undefined && connections.send(connection, { type: 'discard', runId }))
      undeliveredDiscards.noteSent({ workerId, runId }, connection.number)
  }

  /** Schedules one push of all workers to the dashboards; changes within the interval share it. */
  schedulePush(): void {
    const { clock, broadcast } = this.#context
    if (this.#cancelPush !== undefined || !broadcast.hasListeners) return
    const waitMs = Math.max(WORKERS_PUSH_MS, this.#workers.registry.size * WORKERS_PUSH_MS_PER_WORKER)
    this.#cancelPush = clock.after(waitMs, () => {
      this.#cancelPush = undefined
      const push: WorkerEffect = { type: 'worker.push workers' }
      this.#context.system.runAfterCommit(push)
    })
  }
}

/**
 * EphemeralWorkers starts the removal of ephemeral workers: of each that is disconnected and has no lease.
 *
 * The deadline is stored with the worker and ends with its next registration. Connections that break because the host
 * stops count only from the next start.
 */
export class EphemeralWorkers {
  readonly #context: HostContext
  readonly #workers: WorkerRegistry

  constructor(context: HostContext, workers: WorkerRegistry) {
    this.#context = context
    this.#workers = workers
  }

  /** The host has started, and no worker is connected yet. */
  start(): void {
    for (const worker of [...this.#workers.all()]) this.#check(worker)
  }

  /** The worker may have lost its connection or its last lease. */
  check(workerId: string): void {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) this.#check(worker)
  }

  #check({ id, context, online, leases }: EnrolledWorker): void {
    const { clock, system, config, isOpen } = this.#context
    if (context.ephemeral !== true || online || leases.size > 0 || !isOpen()) return
    const until = clock.now() + config().fleet.ephemeralSeconds * 1_000
    system.send(WORKER, id, { type: 'vacated', until })
  }
}
