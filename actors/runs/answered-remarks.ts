/**
 * What people said on pull requests and follow-ups were told: so that none of it is told again, whoever opened the pull
 * request, and nothing new is ever passed over.
 *
 * A remark counts as told once a follow-up that had it came to a good end. One that is begun again may have done its work
 * in any of its attempts, so only what all of them had counts. What is not known for sure is told once more.
 */
import type { KeyValues, Write } from '../../core/ports.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

/** As it is on disk. */
interface Kept {
  /** The pull request. */
  readonly url: string
  /** Absent: no follow-up has come to a good end that this is known of. */
  readonly answered?: readonly string[]
  /** Of the one that is under way: what counts when it is done. */
  readonly offered?: { readonly followUp: string; readonly keys: readonly string[] }
}

export interface Offer {
  readonly followUp: string
  readonly url: string
  /** Keys of the remarks that this attempt is given. */
  readonly keys: readonly string[]
  /** Those of remarks that earlier follow-ups were told. */
  readonly answered: readonly string[]
  /** It has been begun before. */
  readonly isAgain: boolean
}

export interface ToldPorts {
  readonly keyValues: KeyValues
  readonly requestCommit: () => void
}

export class ToldRemarks implements CommitParticipant {
  readonly #ports: ToldPorts
  /** Changed, and not landed yet. */
  readonly #newest = new Map<string, Kept>()
  #toWrite = new Map<string, Kept>()

  constructor(ports: ToldPorts) {
    this.#ports = ports
  }

  /** undefined: it is not known. */
  answered(runId: string, url: string): ReadonlySet<string> | undefined {
    const kept = this.#of(runId)
    return kept?.url === url && kept.answered !== undefined ? new Set(kept.answered) : undefined
  }

  /** A worker is given a follow-up. */
  offered(runId: string, { followUp, url, keys, answered, isAgain }: Offer): void {
    const kept = this.#of(runId)
    const before = kept?.offered?.followUp === followUp ? kept.offered.keys : isAgain ? [] : keys
    const had = new Set(before)
    const offer = { followUp, keys: [...answered, ...keys.filter((key) => had.has(key))] }
    this.#set(runId, { ...(kept?.url === url ? kept : { url }), offered: offer })
  }

  ended(runId: string, followUp: string, isDone: boolean): void {
    const { offered, ...kept } = { ...this.#of(runId) }
    if (kept.url === undefined || offered?.followUp !== followUp) return
    const { url } = kept
    this.#set(runId, isDone ? { url, answered: offered.keys } : { ...kept, url })
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    return {
      writes: [...written].map(
        ([key, value]): Write => ({ table: 'key-value', collection: 'told', key, value }),
      ),
      onCommitted: () => {
        for (const [runId, kept] of written) if (this.#newest.get(runId) === kept) this.#newest.delete(runId)
      },
    }
  }

  #of(runId: string): Kept | undefined {
    // Only this class writes to the shelf.
    return this.#newest.get(runId) ?? (this.#ports.keyValues.get('told', runId) as Kept | undefined)
  }

  #set(runId: string, kept: Kept): void {
    this.#newest.set(runId, kept)
    this.#toWrite.set(runId, kept)
    this.#ports.requestCommit()
  }
}
