/**
 * Pairing tokens: how a machine that has no credential yet gets one, once.
 *
 * Held as hashes, and only in memory: a restart forgets them all. A token dies when it is redeemed, in the very moment
 * in which it is looked at, so that two who present it at once can't both get in.
 */
import { hashOf, newPairingToken } from '../../core/fleet/token.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import { PAIRING_TOKEN_MS, PAIRING_TOKENS_MAX } from '../../protocol/limits.ts'

export interface Invitation {
  readonly local: boolean
  /** On the clock that never jumps. */
  readonly diesAt: number
}

export type Redeemed =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' }
  | { readonly is: 'unknown' }

export class Enrollment {
  readonly #clock: Clock
  readonly #random: RandomSource
  readonly #invitations = new Map<string, Invitation>()

  constructor(clock: Clock, random: RandomSource) {
    this.#clock = clock
    this.#random = random
  }

  /** `local`: for the worker that the host starts itself. */
  invite(local = false): { readonly token: string; readonly expiresAt: string } {
    const token = newPairingToken(this.#random.bytes(32))
    this.#makeRoom()
    this.#invitations.set(hashOf(token), { local, diesAt: this.#clock.monotonic() + PAIRING_TOKEN_MS })
    return { token, expiresAt: new Date(this.#clock.now() + PAIRING_TOKEN_MS).toISOString() }
  }

  redeem(token: string): Redeemed {
    const hash = hashOf(token)
    const invitation = this.#invitations.get(hash)
    if (invitation === undefined) return { is: 'unknown' }
    this.#invitations.delete(hash)
    return invitation.diesAt <= this.#clock.monotonic()
      ? { is: 'expired' }
      : { is: 'valid', local: invitation.local }
  }

  /** Dead ones are kept for a while, so that who comes late hears that it is late; the oldest go first. */
  #makeRoom(): void {
    for (const hash of this.#invitations.keys()) {
      if (this.#invitations.size < PAIRING_TOKENS_MAX) return
      this.#invitations.delete(hash)
    }
  }
}
