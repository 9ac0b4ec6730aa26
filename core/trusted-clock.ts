/**
 * Decides whether a wall clock may delete what can't be made again: it may while nothing contradicts it.
 *
 * A clock is followed from reading to reading. A clock is contradicted when it moves otherwise than the time that has
 * passed, stands before the newest record, or stands long after it. Another machine's clock, or a long time in step, cures
 * that. A worker compares its clock with its host's.
 */

/** How far two clocks may differ and still agree. */
export const CLOCK_TOLERANCE_MS = 3_600_000
/** A host that was off for longer finds its clock contradicted. */
export const CLOCK_GAP_MS_MAX = 30 * 24 * 3_600_000
/** A clock that has moved in step for so long, also across restarts, is believed when no other machine says otherwise. */
export const CLOCK_IN_STEP_MS = 7 * 24 * 3_600_000

/** `moved`: otherwise than the time that has passed. `behind`, `ahead`: of the newest record. */
export type ClockFault = 'moved' | 'behind' | 'ahead'

/** A reading of the wall clock; without `elapsed` it is of an earlier process. */
export interface ClockMark {
  readonly wall: number
  /** Milliseconds of a clock that can't be set, counted within one process. */
  readonly elapsed?: number
}

export interface ClockMemory {
  /** The last reading that nothing contradicted. */
  readonly good: ClockMark
  /** While the clock is contradicted: since when, by its own time, it has moved in step, and its last reading. */
  readonly doubted?: { readonly since: number; readonly last: ClockMark }
}

export interface WallReading {
  readonly wall: number
  readonly elapsed: number
  /** The times of other machines now; asked only when the clock is contradicted. */
  readonly witnesses: () => readonly number[]
}

export interface ClockJudgement {
  readonly memory: ClockMemory
  readonly fault?: ClockFault
}

/** @param memory undefined: nothing was ever recorded, so nothing can be lost */
export function judgeClock(memory: ClockMemory | undefined, reading: WallReading): ClockJudgement {
  const { wall, elapsed } = reading
  const last: ClockMark = { wall, elapsed }
  if (memory === undefined) return { memory: { good: last } }
  const { good, doubted } = memory
  const isInStep = doubted !== undefined && compareWith(doubted.last, reading) === undefined
  const fault = compareWith(good, reading) ?? (isInStep && isAhead(doubted.last, good) ? 'moved' : undefined)
  if (fault === undefined) return { memory: { good: last } }
  const witnesses = reading.witnesses()
  if (fault !== 'behind' && witnesses.some((witness) => isSameTime(witness, wall)))
    return { memory: { good: last } }
  const since = isInStep ? doubted.since : wall
  if (wall - since >= CLOCK_IN_STEP_MS && witnesses.length === 0) return { memory: { good: last } }
  return { memory: { good, doubted: { since, last } }, fault }
}

/** The time by which a worker judges ages: its own, unless its host says another. */
export function compareWithHost(own: number, hosts: number | undefined): WorkerTime {
  const isConfirmed = hosts !== undefined && isSameTime(own, hosts)
  return { now: isConfirmed ? own : (hosts ?? own), isConfirmed }
}

export interface WorkerTime {
  readonly now: number
  /** Both clocks agree, so the worker may delete what has expired and what its remote has. */
  readonly isConfirmed: boolean
}

export function isSameTime(a: number, b: number): boolean {
  return Math.abs(a - b) <= CLOCK_TOLERANCE_MS
}

/** A clock that jumped ahead stays contradicted after a restart, which forgets how much time has passed since. */
function isAhead({ wall }: ClockMark, good: ClockMark): boolean {
  return good.elapsed === undefined && wall > good.wall + CLOCK_TOLERANCE_MS
}

/** How a reading contradicts an earlier one. Between two processes, nobody knows how much time has passed. */
function compareWith(earlier: ClockMark, { wall, elapsed }: WallReading): ClockFault | undefined {
  if (earlier.elapsed !== undefined)
    return isSameTime(wall, earlier.wall + elapsed - earlier.elapsed) ? undefined : 'moved'
  if (wall < earlier.wall - CLOCK_TOLERANCE_MS) return 'behind'
  return wall > earlier.wall + CLOCK_GAP_MS_MAX ? 'ahead' : undefined
}
