/**
 * WorkerProofs checks the secret in a worker's upgrade request: its credential, a pairing token, or a join key.
 *
 * A proof only gives the connection a seat that others cannot take; `register` still decides who the worker is. So a
 * wrong proof counts as none, and is never a reason for `unauthorized`. Nothing is redeemed here.
 */
import type { Meters } from '../../core/ports.ts'
import type { JoinKeys } from './join-keys.ts'
import type { PairingTokens } from './pairing-tokens.ts'
import { provesCredential } from './worker-registration.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface WorkerProofsPorts {
  readonly meters: Meters
  readonly workers: WorkerRegistry
  readonly pairingTokens: PairingTokens
  readonly joinKeys: JoinKeys
}

export class WorkerProofs {
  readonly #ports: WorkerProofsPorts

  constructor(ports: WorkerProofsPorts) {
    this.#ports = ports
  }

  /**
   * Returns the holder of a valid secret, or undefined. Takes the same time for unknown workers and wrong secrets.
   *
   * @param workerId absent for a pairing token and a join key
   */
  check(workerId: string | undefined, secret: string): string | undefined {
    const { meters, workers, pairingTokens, joinKeys } = this.#ports
    const holder =
      workerId === undefined
        ? (pairingTokens.holderOf(secret) ?? joinKeys.holderOf(secret))
        : provesCredential(workers.get(workerId), secret)
          ? `worker ${workerId}`
          : undefined
    meters.count('worker_proofs_total', { outcome: holder === undefined ? 'wrong' : 'valid' })
    return holder
  }
}
