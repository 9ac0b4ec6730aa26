/**
 * UnregisteredSeats holds the seats of connections that are not registered yet: without proof, with a proof of their
 * own, and with a join key that many prove.
 *
 * `core/fleet/connection-seats.ts` decides who gets a seat and who gives way.
 */
import {
  chooseJoiningSeat,
  chooseProvenSeat,
  chooseUnprovenSeat,
  holderOfAddress,
  isJoinKeyHolder,
  type Seat,
  type SeatDecision,
} from '../../core/fleet/connection-seats.ts'
import type { Meters } from '../../core/ports.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'

export class UnregisteredSeats {
  /** Oldest first. */
  readonly #unproven = new Map<number, Seat>()
  readonly #proven = new Map<number, Seat>()
  readonly #joining = new Map<number, Seat>()
  readonly #timers: Pick<MonotonicTimers, 'now'>

  constructor(timers: Pick<MonotonicTimers, 'now'>) {
    this.#timers = timers
  }

  /** Whether a connection without proof would have a seat now. */
  hasSeat(address: string): boolean {
    return this.#choose(address, undefined).is !== 'full'
  }

  /**
   * Takes a seat unless all are taken. The caller closes the connection that has to give way.
   *
   * @param proof the holder of the secret that the upgrade carried: see `WorkerProofs`
   */
  claim(number: number, address: string, proof: string | undefined): SeatDecision {
    const decision = this.#choose(address, proof)
    if (decision.is === 'full') return decision
    if (decision.is === 'displace') this.leave(decision.number)
    const holder = proof ?? holderOfAddress(address)
    this.#seatsFor(proof).set(number, { number, holder, since: this.#timers.now() })
    return decision
  }

  #seatsFor(proof: string | undefined): Map<number, Seat> {
    if (proof === undefined) return this.#unproven
    return isJoinKeyHolder(proof) ? this.#joining : this.#proven
  }

  #choose(address: string, proof: string | undefined): SeatDecision {
    const taken = [...this.#seatsFor(proof).values()]
    const now = this.#timers.now()
    if (proof === undefined) return chooseUnprovenSeat(taken, holderOfAddress(address), now)
    return isJoinKeyHolder(proof) ? chooseJoiningSeat(taken, proof, now) : chooseProvenSeat(taken, proof)
  }

  leave(number: number): void {
    this.#unproven.delete(number)
    this.#proven.delete(number)
    this.#joining.delete(number)
  }

  reportGauges(meters: Meters): void {
    meters.gauge('workers_unregistered', this.#unproven.size, { proof: 'none' })
    meters.gauge('workers_unregistered', this.#proven.size, { proof: 'valid' })
    meters.gauge('workers_unregistered', this.#joining.size, { proof: 'join-key' })
  }
}
