/**
 * TrustedClock gives the wall clock's time while nothing contradicts the clock. Code that deletes by age what can't be
 * made again asks TrustedClock, and keeps everything while it gives no time.
 *
 * The clock is compared every minute, and stored every hour, so that the next start can compare as well. Workers on
 * other machines say their time with each heartbeat.
 */
import type { Cancel } from '../../core/ports/clock.ts'
import type { ControlDatabase } from '../../core/ports/store.ts'
import { type ClockFault, type ClockMemory, judgeClock } from '../../core/trusted-clock.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection } from '../runtime/stored-collection.ts'

export interface TrustedClockPorts
  extends Pick<HostContext, 'clock' | 'elapsedMs' | 'log' | 'requestCommit'> {
  readonly database: Pick<ControlDatabase, 'keyValues' | 'runs'>
}

/** The readings of the wall clock as they are on disk. */
interface StoredReadings {
  readonly good: number
  readonly doubted?: { readonly since: number; readonly last: number }
}

interface ReceivedTime {
  readonly wall: number
  readonly elapsed: number
}

const COMPARED_EVERY_MS = 60_000
const STORED_EVERY_MS = 3_600_000
/** A worker that is away for so long is no witness any more. */
const RECEIVED_MS_MAX = 3_600_000
const KEY = 'wall'
/** The newest run is the newest record of data that was written before readings were stored. */
const NEWEST_RUNS = { limit: 1 } as const

const FAULTS: Readonly<Record<ClockFault, string>> = {
  moved: 'it jumped',
  behind: 'it is behind the newest record',
  ahead: 'it is more than thirty days ahead of the newest record',
}

export class TrustedClock implements CommitParticipant {
  readonly #ports: TrustedClockPorts
  readonly #stored: StoredCollection<StoredReadings>
  readonly #received = new Map<string, ReceivedTime>()
  #memory: ClockMemory | undefined
  #fault: ClockFault | undefined
  #storedAt: number | undefined
  #cancel: Cancel = () => {}

  constructor(ports: TrustedClockPorts) {
    this.#ports = ports
    this.#stored = new StoredCollection('clock', { ...ports, keyValues: ports.database.keyValues })
    this.#memory = this.#restore()
  }

  start(): void {
    this.#compareOften()
  }

  stop(): void {
    this.#cancel()
  }

  /** Wall milliseconds; undefined while the wall clock counts as wrong. */
  now(): number | undefined {
    const wall = this.#ports.clock.now()
    const elapsed = this.#ports.elapsedMs()
    const witnesses = () => this.#listWitnesses(elapsed)
    const { memory, fault } = judgeClock(this.#memory, { wall, elapsed, witnesses })
    this.#memory = memory
    if (fault !== this.#fault) this.#onFault(fault)
    else if (this.#storedAt === undefined || elapsed - this.#storedAt >= STORED_EVERY_MS) this.#store()
    return fault === undefined ? wall : undefined
  }

  /** A worker on another machine says its time. */
  onWorkerTime(workerId: string, wall: number): void {
    this.#received.set(workerId, { wall, elapsed: this.#ports.elapsedMs() })
  }

  get size(): number {
    return this.#received.size
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  #compareOften(): void {
    this.#forgetAbsent(this.#ports.elapsedMs())
    this.now()
    this.#cancel = this.#ports.clock.after(COMPARED_EVERY_MS, () => this.#compareOften())
  }

  /** Short-lived machines come under ever new ids. */
  #forgetAbsent(elapsed: number): void {
    for (const [workerId, received] of this.#received)
      if (elapsed - received.elapsed > RECEIVED_MS_MAX) this.#received.delete(workerId)
  }

  #listWitnesses(elapsed: number): number[] {
    this.#forgetAbsent(elapsed)
    return [...this.#received.values()].map((received) => received.wall + elapsed - received.elapsed)
  }

  #onFault(fault: ClockFault | undefined): void {
    const { log, clock } = this.#ports
    this.#fault = fault
    this.#store()
    const at = new Date(clock.now()).toISOString()
    if (fault === undefined) log.info({ at }, "this machine's clock counts as right again")
    else
      log.warn(
        { at, fault },
        `this machine's clock counts as wrong: ${FAULTS[fault]}; nothing is deleted by age until the clock is set right or a worker on another machine agrees with it`,
      )
  }

  // ---- on disk -----------------------------------------------------------------------------------------------------

  #store(): void {
    if (this.#memory === undefined) return
    const { good, doubted } = this.#memory
    this.#storedAt = this.#ports.elapsedMs()
    this.#stored.set(KEY, {
      good: good.wall,
      ...(doubted === undefined ? {} : { doubted: { since: doubted.since, last: doubted.last.wall } }),
    })
  }

  #restore(): ClockMemory | undefined {
    // The clock counts as wrong until something confirms it: nobody knows what contradicted it before.
    if (this.#stored.damageOf(KEY) !== undefined) return { good: { wall: 0 } }
    const stored = this.#stored.get(KEY)
    if (stored === undefined) return this.#newestRecord()
    const { good, doubted } = stored
    return {
      good: { wall: good },
      ...(doubted === undefined ? {} : { doubted: { since: doubted.since, last: { wall: doubted.last } } }),
    }
  }

  #newestRecord(): ClockMemory | undefined {
    const [newest] = this.#ports.database.runs.list(NEWEST_RUNS)
    if (newest === undefined) return undefined
    return { good: { wall: Date.parse(newest.finishedAt ?? newest.createdAt) } }
  }
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly trustedClock: TrustedClock
  }
}

/** The clock module judges the host's wall clock before anything that can't be made again is deleted by it. */
export const trustedClockModule = defineHostModule({
  name: 'trustedClock',
  create(context) {
    const trustedClock = new TrustedClock({ ...context, database: context.store.database })
    return {
      view: trustedClock,
      participants: [trustedClock],
      start: () => trustedClock.start(),
      stop: () => trustedClock.stop(),
      sizes: () => ({ workerTimes: trustedClock.size }),
    }
  },
})
