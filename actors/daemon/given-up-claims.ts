/**
 * GivenUpClaims remembers which leases the worker has given up by itself and still claims, because processes may be left.
 *
 * Processes that cannot be killed must not block the run for ever, so a claim lasts for `GIVEN_UP_CLAIM_MS_MAX`. That is
 * time for processes to exit in: when the machine slept, they have it once more.
 */
import { timerKind } from '../runtime/timer-kind.ts'
import type { SleepAwareTimers } from './sleep-aware-timers.ts'

/** How long a given-up lease is still claimed. */
const GIVEN_UP_CLAIM_MS_MAX = 60_000
/** A timer that is later than this fires after a sleep of the machine, or of the process. */
const AWAKE_LATE_MS_MAX = 1_000

export const CLAIM_TIMER = timerKind<'over'>('claim')

export class GivenUpClaims {
  readonly #timers: SleepAwareTimers
  /** By lease id, until when it is claimed. */
  readonly #until = new Map<string, number>()

  constructor(timers: SleepAwareTimers) {
    this.#timers = timers
  }

  has(leaseId: string): boolean {
    return this.#until.has(leaseId)
  }

  add(leaseId: string): void {
    const until = this.#timers.now() + GIVEN_UP_CLAIM_MS_MAX
    this.#until.set(leaseId, until)
    this.#timers.at(CLAIM_TIMER.key(leaseId), 'over', until)
  }

  delete(leaseId: string): void {
    this.#until.delete(leaseId)
    this.#timers.cancelAll(CLAIM_TIMER.key(leaseId))
  }

  /** Ends the claims that no process is left for. */
  keepOnly(isOccupied: (leaseId: string) => boolean): void {
    for (const leaseId of this.#until.keys()) if (!isOccupied(leaseId)) this.delete(leaseId)
  }

  onTimer(leaseId: string): void {
    const until = this.#until.get(leaseId) ?? Number.POSITIVE_INFINITY
    if (this.#timers.now() - until > AWAKE_LATE_MS_MAX) this.add(leaseId)
    else this.delete(leaseId)
  }
}
