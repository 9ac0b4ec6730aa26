/**
 * UndeliveredDiscards stores requests to discard a sandbox until the worker has received them, which may take days.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface UndeliveredDiscard {
  readonly workerId: string
  readonly runId: string
}

const keyOf = ({ workerId, runId }: UndeliveredDiscard): string => `${workerId}/${runId}`

export class UndeliveredDiscards implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  #toWrite = new Map<string, UndeliveredDiscard | null>()

  constructor(keyValues: KeyValues, requestCommit: () => void) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
  }

  add(discard: UndeliveredDiscard): void {
    this.#toWrite.set(keyOf(discard), discard)
    this.#requestCommit()
  }

  markDelivered(discard: UndeliveredDiscard): void {
    this.#toWrite.set(keyOf(discard), null)
    this.#requestCommit()
  }

  /** Drops all requests for a worker that was revoked. */
  dropWorker(workerId: string): void {
    for (const discard of this.storedFor(workerId)) this.markDelivered(discard)
    for (const discard of [...this.#toWrite.values()])
      if (discard?.workerId === workerId) this.markDelivered(discard)
  }

  /** Lists the requests for a worker that are on disk. */
  storedFor(workerId: string): UndeliveredDiscard[] {
    // `0` is the character after `/`. The cast holds because only this class writes such keys.
    const found = this.#keyValues.all('errand', { after: `${workerId}/`, until: `${workerId}0` })
    return [...found].map(([, discard]) => discard as UndeliveredDiscard)
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const writes = [...this.#toWrite].map(
      ([key, value]): Write => ({ table: 'key-value', collection: 'errand', key, value }),
    )
    this.#toWrite = new Map()
    return { writes, onCommitted: () => {} }
  }
}
