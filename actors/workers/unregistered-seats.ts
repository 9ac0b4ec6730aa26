/**
 * UnregisteredSeats holds the seats of connections that are not registered yet, with and without proof.
 *
 * `core/fleet/connection-seats.ts` decides who gets a seat and who gives way.
 */
import {
  chooseProvenSeat,
  chooseUnprovenSeat,
  holderOfAddress,
  type Seat,
  type SeatDecision,
} from '../../core/fleet/connection-seats.ts'
import type { Meters } from '../../core/ports.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'

export class UnregisteredSeats {
  /** Oldest first. */
  readonly #unproven = new Map<number, Seat>()
  readonly #proven = new Map<number, Seat>()
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
    const seats = proof === undefined ? this.#unproven : this.#proven
    seats.set(number, { number, holder: proof ?? holderOfAddress(address), since: this.#timers.now() })
    return decision
  }

  #choose(address: string, proof: string | undefined): SeatDecision {
    return proof === undefined
      ? chooseUnprovenSeat([...this.#unproven.values()], holderOfAddress(address), this.#timers.now())
      : chooseProvenSeat([...this.#proven.values()], proof)
  }

  leave(number: number): void {
    this.#unproven.delete(number)
    this.#proven.delete(number)
  }

  reportGauges(meters: Meters): void {
    meters.gauge('workers_unregistered', this.#unproven.size, { proof: 'none' })
    meters.gauge('workers_unregistered', this.#proven.size, { proof: 'valid' })
  }
}
