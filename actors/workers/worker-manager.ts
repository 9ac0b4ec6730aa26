/**
 * What follows from the lives of workers and lines: who is there, whose leases are without a worker, what is said on a
 * line once something is on disk, what people are shown of the fleet.
 *
 * It keeps nothing of its own: what is known of workers is in the fleet's book, and lines know themselves.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { ENROLLMENT_PROOF_MS, WORKERS_PUSH_MS } from '../../protocol/limits.ts'
import type { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { ConnectionContext } from './connection.machine.ts'
import type { DispatchBackoff } from './dispatch-backoff.ts'
import type { WorkerContext, WorkerEvent } from './worker.machine.ts'
import { WORKER } from './worker.names.ts'
import type { WorkerConnections, WorkerEffect } from './worker-connections.ts'
import type { WorkerRegistration } from './worker-registration.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface WorkerManagerPorts {
  readonly clock: Clock
  readonly system: ActorSystem
  readonly workers: WorkerRegistry
  readonly timers: MonotonicTimers
  readonly connections: WorkerConnections
  readonly registration: WorkerRegistration
  readonly dispatchBackoff: DispatchBackoff
  readonly book: FrameReceiver
  readonly errands: UndeliveredDiscards
  readonly terminals: TerminalSessions
  /** Whether there is any use in showing people anything. */
  readonly hasViewers: () => boolean
  /** People see the fleet as it is now. */
  readonly pushWorkers: () => void
  /** Something that may let a run be placed. */
  readonly requestScheduling: () => void
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
      case 'fleet.tell state': {
        const worker = workers.get(effect.workerId)
        if (worker !== undefined)
          connections.sendToWorker(worker.id, { type: 'worker-state', state: worker.state })
        return
      }
      case 'fleet.refuse': {
        const connection = connections.get(effect.connection)
        if (connection !== undefined && !connection.isClosing)
          connections.refuse(connection, effect.code, effect.reason)
        return
      }
      case 'fleet.welcome': {
        const connection = connections.get(effect.connection)
        if (connection !== undefined) this.#ports.registration.sendWelcome(connection)
        return
      }
      case 'fleet.part':
        connections.sendEvent(effect.connection, { type: 'revoked', reason: effect.reason })
        return
      case 'fleet.reject': {
        const { connection, code, reason } = effect
        connections.sendLast(connection, { type: 'rejected', code, reason }, reason)
        return
      }
      case 'fleet.say revoked':
        connections.sendLast(effect.connection, { type: 'revoked', reason: effect.reason }, effect.reason)
        return
      case 'fleet.hang up':
        connections.close(effect.connection, effect.reason)
        return
      case 'fleet.push workers':
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
    const { workers, dispatchBackoff, system, requestScheduling: look } = this.#ports
    const state = after.value === 'draining' ? 'draining' : 'active'
    const stateBefore = before === undefined ? undefined : before.value === 'draining' ? 'draining' : 'active'
    const worker = workers.updateWorker(context, state)
    this.#watchProof(key, context.proven, before === undefined)
    const nameBefore = (before?.context as WorkerContext | undefined)?.name
    if (stateBefore !== undefined && stateBefore !== state) {
      if (state === 'active') dispatchBackoff.clear(worker)
      const sendState: WorkerEffect = { type: 'fleet.tell state', workerId: key }
      system.runAfterCommit(sendState)
      look()
    }
    if (stateBefore !== state || nameBefore !== context.name) this.schedulePush()
  }

  /** On the clock that never jumps, and anew after a restart: a wall clock set right must not cost an enrollment. */
  #watchProof(id: string, proven: boolean, isNew: boolean): void {
    const { timers } = this.#ports
    if (!proven && isNew) timers.set(timerKeyOf(id), 'proof', timers.now() + ENROLLMENT_PROOF_MS)
    else if (proven && !isNew) timers.cancelAll(timerKeyOf(id))
  }

  /** An alarm that was set here came due. */
  onTimer(key: string): void {
    const event: WorkerEvent = { type: 'never proved' }
    this.#ports.system.send(WORKER, key.slice('enrollment '.length), event)
  }

  #onWorkerRemoved(id: string, isRevoked: boolean): void {
    const {
      timers,
      terminals,
      book,
      errands,
      workers,
      dispatchBackoff,
      connections,
      requestScheduling: look,
    } = this.#ports
    const leases = [...(workers.get(id)?.leases ?? [])]
    if (isRevoked) {
      connections.closeRevoked(id, 'the enrollment of this worker was revoked')
      book.ignoreWorker(id)
      errands.dropWorker(id)
    } else connections.closeWorker(id, 'the enrollment could not be carried on')
    workers.removeWorker(id)
    dispatchBackoff.remove(id)
    terminals.onWorkerRemoved(id)
    timers.cancelAll(timerKeyOf(id))
    this.#reportWorkerLost(leases)
    look()
    this.schedulePush()
  }

  // ---- lines -------------------------------------------------------------------------------------------------------

  onConnectionChange({ after, before, over }: StateChange): void {
    const { workers, connections, requestScheduling: look } = this.#ports
    const { number, workerId, since } = after.context as ConnectionContext
    if (over) {
      connections.stopReading(number)
      if (workerId !== null && workers.clearConnection(workerId, number)) this.#onConnectionLost(workerId)
      return
    }
    if (workerId === null || since === null || before?.value === after.value) return
    workers.setConnection(workerId, { number, since, address: connections.get(number)?.link.address ?? '' })
    look()
    this.schedulePush()
  }

  #onConnectionLost(workerId: string): void {
    this.#ports.terminals.onConnectionLost(workerId)
    this.#reportWorkerLost([...(this.#ports.workers.get(workerId)?.leases ?? [])])
    this.#ports.requestScheduling()
    this.schedulePush()
  }

  #reportWorkerLost(leases: readonly string[]): void {
    const event: LeaseEvent = { type: 'worker lost' }
    for (const id of leases) this.#ports.system.send(LEASE, id, event)
  }

  // ---- what is told ------------------------------------------------------------------------------------------------

  /** It is back: what it was to be told while it was away. */
  onReconnected(workerId: string): void {
    const { workers, dispatchBackoff } = this.#ports
    const worker = workers.get(workerId)
    if (worker !== undefined) dispatchBackoff.onReconnected(worker)
    for (const { runId } of this.#ports.errands.storedFor(workerId)) this.sendDiscard(workerId, runId)
    this.#ports.terminals.onConnectionRestored(workerId)
  }

  /** Answers nothing: what could not be told is told when the worker is back. */
  sendDiscard(workerId: string, runId: string): void {
    const { errands, connections } = this.#ports
    if (connections.sendToWorker(workerId, { type: 'discard', runId }))
      errands.markDelivered({ workerId, runId })
  }

  /** However many changes there are, people are told of the fleet as a whole, at a bounded pace. */
  schedulePush(): void {
    if (this.#cancelPush !== undefined || !this.#ports.hasViewers()) return
    this.#cancelPush = this.#ports.clock.after(WORKERS_PUSH_MS, () => {
      this.#cancelPush = undefined
      const push: WorkerEffect = { type: 'fleet.push workers' }
      this.#ports.system.runAfterCommit(push)
    })
  }
}
