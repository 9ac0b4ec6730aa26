/**
 * Workers that are left alone for a while, because they did not take what they were given.
 *
 * Once refused, a worker rests for a moment; refused over and over for the same reason, its machine seems to be that
 * reason, and it is on hold until somebody looks after it or enough time has passed. Kept in memory only: a restart
 * gives everybody another chance.
 */
import { holdAfter, holdEndsAt, rejectionOf, stillCounting } from '../../core/fleet/rejection.ts'
import type { Log } from '../../core/ports.ts'
import { WORKER_REFUSED_PAUSE_MS } from '../../protocol/limits.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { Fleet, Member } from './worker-registry.ts'

export interface HoldPorts {
  readonly log: Log
  readonly fleet: Fleet
  readonly timers: MonotonicTimers
  /** Something that may let a run be placed. */
  readonly look: () => void
}

const alarmOf = (workerId: string): string => `worker ${workerId}`

export class Holds {
  readonly #ports: HoldPorts
  /** Rest because they were about to end; by worker. */
  readonly #ending = new Set<string>()

  constructor(ports: HoldPorts) {
    this.#ports = ports
  }

  /** It did not take a run: it is left alone for a while, and longer when its machine seems to be the reason. */
  refused(member: Member, reason: string): void {
    const { timers, log } = this.#ports
    const now = timers.now()
    const rejection = rejectionOf(reason)
    member.pausedUntil = now + WORKER_REFUSED_PAUSE_MS
    timers.set(alarmOf(member.id), 'pause', member.pausedUntil)
    if (rejection.class === 'draining') this.#ending.add(member.id)
    else this.#ending.delete(member.id)
    const history = stillCounting([...member.refusals, { at: now, ...rejection }], now)
    member.refusals.splice(0, Number.POSITIVE_INFINITY, ...history)
    const hold = holdAfter(history, now)
    if (hold === undefined) return
    member.hold = hold
    timers.set(alarmOf(member.id), 'hold', holdEndsAt(history, now) ?? now)
    log.warn({ worker: member.id, reason: hold }, 'a worker is put on hold for dispatch')
  }

  /** An alarm that was set here came due: its pause or its hold is over. */
  rang(key: string, name: string): void {
    const member = this.#ports.fleet.member(key.slice('worker '.length))
    if (member !== undefined && name === 'hold') delete member.hold
    this.#ports.look()
  }

  /** It registered anew. What was about to end has been started again, and may be asked at once. */
  returned(member: Member): void {
    if (!this.#ending.delete(member.id)) return
    member.pausedUntil = 0
  }

  /** Somebody has looked after it. */
  forgive(member: Member): void {
    delete member.hold
    member.pausedUntil = 0
    member.refusals.length = 0
    this.forget(member.id)
    this.#ports.look()
  }

  /** It is enrolled no more. */
  forget(workerId: string): void {
    this.#ending.delete(workerId)
    this.#ports.timers.cancelAll(alarmOf(workerId))
  }
}
