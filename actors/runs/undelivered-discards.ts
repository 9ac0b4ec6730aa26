/**
 * What a worker is to be told about a run that is over, kept until it was told: it may be away for days.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface Errand {
  readonly workerId: string
  readonly runId: string
}

const keyOf = ({ workerId, runId }: Errand): string => `${workerId}/${runId}`

export class Errands implements CommitParticipant {
  readonly #keyValues: KeyValues
  readonly #requestCommit: () => void
  #toWrite = new Map<string, Errand | null>()

  constructor(keyValues: KeyValues, requestCommit: () => void) {
    this.#keyValues = keyValues
    this.#requestCommit = requestCommit
  }

  add(errand: Errand): void {
    this.#toWrite.set(keyOf(errand), errand)
    this.#requestCommit()
  }

  done(errand: Errand): void {
    this.#toWrite.set(keyOf(errand), null)
    this.#requestCommit()
  }

  /** The worker will not be told any more: it is enrolled no longer. */
  forget(workerId: string): void {
    for (const errand of this.of(workerId)) this.done(errand)
    for (const errand of [...this.#toWrite.values()]) if (errand?.workerId === workerId) this.done(errand)
  }

  /** Those on disk. */
  of(workerId: string): Errand[] {
    // `0` is the character behind `/`. Only this class writes to the shelf.
    const found = this.#keyValues.all('errand', { after: `${workerId}/`, until: `${workerId}0` })
    return [...found].map(([, errand]) => errand as Errand)
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
