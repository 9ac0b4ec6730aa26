/**
 * What a worker is to be told about a run that is over, kept until it was told: it may be away for days.
 */
import type { Facts, Write } from '../../core/ports.ts'
import type { CutGuest, CutShare } from '../runtime/commit-loop.ts'

export interface Errand {
  readonly workerId: string
  readonly runId: string
}

const keyOf = ({ workerId, runId }: Errand): string => `${workerId}/${runId}`

export class Errands implements CutGuest {
  readonly #facts: Facts
  readonly #stir: () => void
  #toWrite = new Map<string, Errand | null>()

  constructor(facts: Facts, stir: () => void) {
    this.#facts = facts
    this.#stir = stir
  }

  add(errand: Errand): void {
    this.#toWrite.set(keyOf(errand), errand)
    this.#stir()
  }

  done(errand: Errand): void {
    this.#toWrite.set(keyOf(errand), null)
    this.#stir()
  }

  /** The worker will not be told any more: it is enrolled no longer. */
  forget(workerId: string): void {
    for (const errand of this.of(workerId)) this.done(errand)
    for (const errand of [...this.#toWrite.values()]) if (errand?.workerId === workerId) this.done(errand)
  }

  /** Those on disk. */
  of(workerId: string): Errand[] {
    // `0` is the character behind `/`. Only this class writes to the shelf.
    const found = this.#facts.all('errand', { after: `${workerId}/`, until: `${workerId}0` })
    return [...found].map(([, errand]) => errand as Errand)
  }

  join(): CutShare | undefined {
    if (this.#toWrite.size === 0) return undefined
    const writes = [...this.#toWrite].map(
      ([key, value]): Write => ({ table: 'fact', shelf: 'errand', key, value }),
    )
    this.#toWrite = new Map()
    return { writes, landed: () => {} }
  }
}
