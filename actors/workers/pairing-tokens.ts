/**
 * PairingTokens issues one-time tokens with which a machine without a credential enrolls as a worker.
 *
 * Tokens are held as hashes and in memory only, so a restart invalidates them all. Redeeming a token removes it in the
 * same step, so two machines that present it at once can't both enroll.
 */
import { hashSecret, newPairingToken } from '../../core/fleet/token.ts'
import type { Clock, RandomSource } from '../../core/ports.ts'
import { PAIRING_TOKEN_MS, PAIRING_TOKENS_MAX } from '../../protocol/limits.ts'

export interface PairingToken {
  readonly local: boolean
  /** Monotonic instant in milliseconds. */
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
  /** Called with the worker that a token has enrolled. */
  readonly #watchers = new Map<string, (workerId: string) => void>()

  constructor(clock: Clock, random: RandomSource) {
    this.#clock = clock
    this.#random = random
  }

  /** `local`: the token is for the worker that the host starts itself. */
  issue(local = false): { readonly token: string; readonly expiresAt: string } {
    const token = newPairingToken(this.#random.bytes(32))
    this.#dropOldest()
    this.#tokens.set(hashSecret(token), {
      local,
      expiresAtMonotonic: this.#clock.monotonic() + PAIRING_TOKEN_MS,
    })
    return { token, expiresAt: new Date(this.#clock.now() + PAIRING_TOKEN_MS).toISOString() }
  }

  /** Names a valid token without redeeming it; undefined when the token is not valid. */
  holderOf(token: string): string | undefined {
    const hash = hashSecret(token)
    const found = this.#tokens.get(hash)
    const isValid = found !== undefined && found.expiresAtMonotonic > this.#clock.monotonic()
    return isValid ? `token ${hash}` : undefined
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

  /** Calls `onEnrolled` when the token has enrolled a worker. Ends with `forget`. */
  watch(token: string, onEnrolled: (workerId: string) => void): void {
    this.#watchers.set(hashSecret(token), onEnrolled)
  }

  /** Makes the token worthless if it was not redeemed. */
  forget(token: string): void {
    const hash = hashSecret(token)
    this.#tokens.delete(hash)
    this.#watchers.delete(hash)
  }

  /** The redeemed token has enrolled a worker. */
  onEnrolled(token: string, workerId: string): void {
    this.#watchers.get(hashSecret(token))?.(workerId)
  }

  /** Expired tokens are kept until room is needed, so that a late machine learns that its token expired. */
  #dropOldest(): void {
    for (const hash of this.#tokens.keys()) {
      if (this.#tokens.size < PAIRING_TOKENS_MAX) return
      this.#tokens.delete(hash)
    }
  }
}
