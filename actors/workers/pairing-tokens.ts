/**
 * Pairing tokens: how a machine that has no credential yet gets one, once.
 *
 * Held as hashes, and only in memory: a restart forgets them all. A token dies when it is redeemed, in the very moment
 * in which it is looked at, so that two who present it at once can't both get in.
 */
import { hashSecret, newPairingToken } from '../../core/fleet/token.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import { PAIRING_TOKEN_MS, PAIRING_TOKENS_MAX } from '../../protocol/limits.ts'

export interface PairingToken {
  readonly local: boolean
  /** On the clock that never jumps. */
  readonly expiresAtMonotonic: number
}

export type Redemption =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' }
  | { readonly is: 'unknown' }

export class PairingTokens {
  readonly #clock: Clock
  readonly #random: RandomSource
  readonly #tokens = new Map<string, PairingToken>()

  constructor(clock: Clock, random: RandomSource) {
    this.#clock = clock
    this.#random = random
  }

  /** `local`: for the worker that the host starts itself. */
  issue(local = false): { readonly token: string; readonly expiresAt: string } {
    const token = newPairingToken(this.#random.bytes(32))
    this.#dropOldest()
    this.#tokens.set(hashSecret(token), {
      local,
      expiresAtMonotonic: this.#clock.monotonic() + PAIRING_TOKEN_MS,
    })
    return { token, expiresAt: new Date(this.#clock.now() + PAIRING_TOKEN_MS).toISOString() }
  }

  redeem(token: string): Redemption {
    const hash = hashSecret(token)
    const found = this.#tokens.get(hash)
    if (found === undefined) return { is: 'unknown' }
    this.#tokens.delete(hash)
    return found.expiresAtMonotonic <= this.#clock.monotonic()
      ? { is: 'expired' }
      : { is: 'valid', local: found.local }
  }

  /** Dead ones are kept for a while, so that who comes late hears that it is late; the oldest go first. */
  #dropOldest(): void {
    for (const hash of this.#tokens.keys()) {
      if (this.#tokens.size < PAIRING_TOKENS_MAX) return
      this.#tokens.delete(hash)
    }
  }
}
