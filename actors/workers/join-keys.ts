/**
 * JoinKeys holds the keys with which many machines enroll as workers, each with a credential of its own. PairingTokens
 * issues the tokens with which one machine does.
 *
 * A key is on disk as a hash, so it survives restarts and only its creator ever sees it. How many workers a key has is
 * counted in the worker registry, so a worker that is revoked or removed makes room for the next one.
 */
import {
  admitJoin,
  hasExpired,
  type JoinKeyTerms,
  type RegistrationAdmission,
} from '../../core/fleet/admission.ts'
import { holderOfJoinKey } from '../../core/fleet/connection-seats.ts'
import { hashSecret, newJoinKey, newJoinKeyId, newPairingToken } from '../../core/fleet/token.ts'
import type { Clock, RandomSource } from '../../core/ports/clock.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JoinKey } from '../../protocol/join-key.ts'
import { JOIN_KEYS_MAX } from '../../protocol/limits.ts'
import type { HostContext } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface StoredJoinKey extends JoinKeyTerms {
  readonly name: string
  /** SHA-256 of the key, in hex. */
  readonly hash: string
  readonly createdAt: string
}

export interface JoinKeysPorts extends StoredCollectionPorts, Pick<HostContext, 'clock' | 'random'> {
  readonly workers: WorkerRegistry
}

export class JoinKeys implements CommitParticipant {
  readonly #ports: JoinKeysPorts
  readonly #stored: StoredCollection<StoredJoinKey>
  readonly #byId = new Map<string, StoredJoinKey>()
  readonly #byHash = new Map<string, StoredJoinKey>()

  constructor(ports: JoinKeysPorts) {
    this.#ports = ports
    this.#stored = new StoredCollection('join-key', ports)
    for (const [, joinKey] of this.#stored.listDurable()) this.#hold(joinKey)
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  /** Returns the key, which exists nowhere else. The caller waits for the commit before it passes the key on. */
  create(
    terms: Omit<JoinKeyTerms, 'id'> & { readonly name: string },
  ): Result<StoredJoinKey & { readonly key: string }> {
    const { clock, random } = this.#ports
    if (this.#byId.size >= JOIN_KEYS_MAX)
      return no('conflict', `this host has ${JOIN_KEYS_MAX} join keys already; delete one that nobody needs`)
    const key = newJoinKey(random.bytes(32))
    const joinKey: StoredJoinKey = {
      id: newJoinKeyId(random.bytes(4)),
      ...terms,
      hash: hashSecret(key),
      createdAt: new Date(clock.now()).toISOString(),
    }
    this.#hold(joinKey)
    this.#stored.set(joinKey.id, joinKey)
    return yes({ ...joinKey, key })
  }

  /** Ends further joins at once. Returns whether the key was there. */
  delete(id: string): boolean {
    const joinKey = this.#byId.get(id)
    if (joinKey === undefined) return false
    this.#byId.delete(id)
    this.#byHash.delete(joinKey.hash)
    this.#stored.set(id, null)
    return true
  }

  /** Oldest first. */
  list(): JoinKey[] {
    const counts = this.#ports.workers.countByJoinKey()
    return [...this.#byId.values()]
      .sort((a, b) => (a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : 0))
      .map(({ hash: _, ...joinKey }) => ({ ...joinKey, workers: counts.get(joinKey.id) ?? 0 }))
  }

  /** Counts the key's workers and decides in the same step, so that machines at once never exceed `maxWorkers`. */
  admit(key: string): RegistrationAdmission {
    const joinKey = this.#byHash.get(hashSecret(key))
    const count = joinKey === undefined ? 0 : this.#countWorkers(joinKey.id)
    return admitJoin(joinKey, count, this.#ports.clock.now())
  }

  /** Returns the id of a valid key, used up or not; undefined when the key is not valid. */
  idOf(key: string): string | undefined {
    const joinKey = this.#byHash.get(hashSecret(key))
    return joinKey === undefined || hasExpired(joinKey, this.#ports.clock.now()) ? undefined : joinKey.id
  }

  /** Names a valid key, used up or not; undefined when the key is not valid. */
  holderOf(key: string): string | undefined {
    const id = this.idOf(key)
    return id === undefined ? undefined : holderOfJoinKey(id)
  }

  /** Returns how many more workers may join with the key; undefined: any number. */
  freeSeatsOf(id: string): number | undefined {
    const maxWorkers = this.#byId.get(id)?.maxWorkers
    return maxWorkers === undefined ? undefined : Math.max(0, maxWorkers - this.#countWorkers(id))
  }

  /** Whether a worker that has left its seat may come back. With a deleted key none may. */
  hasFreeSeat(id: string): boolean {
    return this.#byId.has(id) && this.freeSeatsOf(id) !== 0
  }

  get size(): number {
    return this.#byId.size
  }

  #countWorkers(id: string): number {
    return this.#ports.workers.countByJoinKey().get(id) ?? 0
  }

  #hold(joinKey: StoredJoinKey): void {
    this.#byId.set(joinKey.id, joinKey)
    this.#byHash.set(joinKey.hash, joinKey)
  }
}

// ---- pairing tokens ----------------------------------------------------------------------------------------------

const PAIRING_TOKEN_MS = 10 * 60_000
/** Pairing tokens that may be valid at once; above this the oldest is removed. */
const PAIRING_TOKENS_MAX = 1_000

interface PairingToken {
  readonly local: boolean
  /** Monotonic instant in milliseconds. */
  readonly expiresAtMonotonic: number
}

type Redemption =
  | { readonly is: 'valid'; readonly local: boolean }
  | { readonly is: 'expired' }
  | { readonly is: 'unknown' }

/**
 * PairingTokens issues one-time tokens with which a machine without a credential enrolls as a worker.
 *
 * Tokens are held as hashes and in memory only, so a restart invalidates them all. Redeeming a token removes it in the
 * same step, so two machines that present it at once can't both enroll.
 */
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
