/**
 * What follows from the lives of workers and lines: who is there, whose leases are without a worker, what is said on a
 * line once something is on disk, what people are shown of the fleet.
 *
 * It keeps nothing of its own: what is known of workers is in the fleet's book, and lines know themselves.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { ENROLLMENT_PROOF_MS, WORKERS_PUSH_MS } from '../../protocol/limits.ts'
import type { Book } from '../leases/frame-receiver.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { Errands } from '../runs/undelivered-discards.ts'
import type { ActorSystem, StateChange } from '../runtime/actor-system.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { AttachRoom } from '../terminals/terminal-sessions.ts'
import type { ConnectionContext } from './connection.machine.ts'
import type { Holds } from './dispatch-backoff.ts'
import { WORKER } from './fleet.names.ts'
import type { WorkerContext, WorkerEvent } from './worker.machine.ts'
import type { FleetEffect, Lines } from './worker-connections.ts'
import type { Introductions } from './worker-registration.ts'
import type { Fleet } from './worker-registry.ts'

export interface FleetRoomPorts {
  readonly clock: Clock
  readonly system: ActorSystem
  readonly fleet: Fleet
  readonly timers: MonotonicTimers
  readonly lines: Lines
  readonly introductions: Introductions
  readonly holds: Holds
  readonly book: Book
  readonly errands: Errands
  readonly attach: AttachRoom
  /** Whether there is any use in showing people anything. */
  readonly anybody: () => boolean
  /** People see the fleet as it is now. */
  readonly push: () => void
  /** Something that may let a run be placed. */
  readonly look: () => void
}

const alarmOf = (workerId: string): string => `enrollment ${workerId}`

export class FleetRoom {
  readonly #ports: FleetRoomPorts
  #push: Cancel | undefined

  constructor(ports: FleetRoomPorts) {
    this.#ports = ports
  }

  stop(): void {
    this.#push?.()
  }

  do(effect: FleetEffect): void {
    const { lines, fleet } = this.#ports
    switch (effect.type) {
      case 'fleet.tell state': {
        const member = fleet.member(effect.workerId)
        if (member !== undefined) lines.sendTo(member.id, { type: 'worker-state', state: member.state })
        return
      }
      case 'fleet.refuse': {
        const connection = lines.at(effect.connection)
        if (connection !== undefined && !connection.deaf) lines.refuse(connection, effect.code, effect.reason)
        return
      }
      case 'fleet.welcome': {
        const connection = lines.at(effect.connection)
        if (connection !== undefined) this.#ports.introductions.welcome(connection)
        return
      }
      case 'fleet.part':
        lines.tell(effect.connection, { type: 'revoked', reason: effect.reason })
        return
      case 'fleet.reject': {
        const { connection, code, reason } = effect
        lines.last(connection, { type: 'rejected', code, reason }, reason)
        return
      }
      case 'fleet.say revoked':
        lines.last(effect.connection, { type: 'revoked', reason: effect.reason }, effect.reason)
        return
      case 'fleet.hang up':
        lines.close(effect.connection, effect.reason)
        return
      case 'fleet.push workers':
        this.#ports.push()
        return
    }
  }

  // ---- workers -----------------------------------------------------------------------------------------------------

  workerIs({ key, before, after, over }: StateChange): void {
    const context = after.context as WorkerContext
    if (over) {
      this.#workerLeft(key, after.value === 'revoked')
      return
    }
    const { fleet, holds, system, look } = this.#ports
    const state = after.value === 'draining' ? 'draining' : 'active'
    const was = before === undefined ? undefined : before.value === 'draining' ? 'draining' : 'active'
    const member = fleet.workerIs(context, state)
    this.#awaitProof(key, context.proven, before === undefined)
    const named = (before?.context as WorkerContext | undefined)?.name
    if (was !== undefined && was !== state) {
      if (state === 'active') holds.forgive(member)
      const tell: FleetEffect = { type: 'fleet.tell state', workerId: key }
      system.runAfterCommit(tell)
      look()
    }
    if (was !== state || named !== context.name) this.changed()
  }

  /** On the clock that never jumps, and anew after a restart: a wall clock set right must not cost an enrollment. */
  #awaitProof(id: string, proven: boolean, fresh: boolean): void {
    const { timers } = this.#ports
    if (!proven && fresh) timers.set(alarmOf(id), 'proof', timers.now() + ENROLLMENT_PROOF_MS)
    else if (proven && !fresh) timers.cancelAll(alarmOf(id))
  }

  /** An alarm that was set here came due. */
  rang(key: string): void {
    const event: WorkerEvent = { type: 'never proved' }
    this.#ports.system.send(WORKER, key.slice('enrollment '.length), event)
  }

  #workerLeft(id: string, revoked: boolean): void {
    const { timers, attach, book, errands, fleet, holds, lines, look } = this.#ports
    const leases = [...(fleet.member(id)?.leases ?? [])]
    if (revoked) {
      lines.revoked(id, 'the enrollment of this worker was revoked')
      book.silence(id)
      errands.forget(id)
    } else lines.sendAway(id, 'the enrollment could not be carried on')
    fleet.workerLeft(id)
    holds.forget(id)
    attach.workerLeft(id)
    timers.cancelAll(alarmOf(id))
    this.#tellLost(leases)
    look()
    this.changed()
  }

  // ---- lines -------------------------------------------------------------------------------------------------------

  connectionIs({ after, before, over }: StateChange): void {
    const { fleet, lines, look } = this.#ports
    const { number, workerId, since } = after.context as ConnectionContext
    if (over) {
      lines.over(number)
      if (workerId !== null && fleet.disconnected(workerId, number)) this.#lineLost(workerId)
      return
    }
    if (workerId === null || since === null || before?.value === after.value) return
    fleet.connected(workerId, { connection: number, since, address: lines.at(number)?.link.address ?? '' })
    look()
    this.changed()
  }

  #lineLost(workerId: string): void {
    this.#ports.attach.lineLost(workerId)
    this.#tellLost([...(this.#ports.fleet.member(workerId)?.leases ?? [])])
    this.#ports.look()
    this.changed()
  }

  #tellLost(leases: readonly string[]): void {
    const event: LeaseEvent = { type: 'worker lost' }
    for (const id of leases) this.#ports.system.send(LEASE, id, event)
  }

  // ---- what is told ------------------------------------------------------------------------------------------------

  /** It is back: what it was to be told while it was away. */
  returned(workerId: string): void {
    const { fleet, holds } = this.#ports
    const member = fleet.member(workerId)
    if (member !== undefined) holds.returned(member)
    for (const { runId } of this.#ports.errands.of(workerId)) this.runErrand(workerId, runId)
    this.#ports.attach.lineBack(workerId)
  }

  /** Answers nothing: what could not be told is told when the worker is back. */
  runErrand(workerId: string, runId: string): void {
    const { errands, lines } = this.#ports
    if (lines.sendTo(workerId, { type: 'discard', runId })) errands.done({ workerId, runId })
  }

  /** However many changes there are, people are told of the fleet as a whole, at a bounded pace. */
  changed(): void {
    if (this.#push !== undefined || !this.#ports.anybody()) return
    this.#push = this.#ports.clock.after(WORKERS_PUSH_MS, () => {
      this.#push = undefined
      const push: FleetEffect = { type: 'fleet.push workers' }
      this.#ports.system.runAfterCommit(push)
    })
  }
}
