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
interface StoredRemarks {
  /** The pull request. */
  readonly url: string
  /** Absent: no follow-up has come to a good end that this is known of. */
  readonly answered?: readonly string[]
  /** Of the one that is under way: what counts when it is done. */
  readonly offered?: { readonly followUp: string; readonly keys: readonly string[] }
}

export interface RemarkOffer {
  readonly followUp: string
  readonly url: string
  /** Keys of the remarks that this attempt is given. */
  readonly keys: readonly string[]
  /** Those of remarks that earlier follow-ups were told. */
  readonly answered: readonly string[]
  /** It has been begun before. */
  readonly isAgain: boolean
}

export interface AnsweredRemarksPorts {
  readonly keyValues: KeyValues
  readonly requestCommit: () => void
}

export class AnsweredRemarks implements CommitParticipant {
  readonly #ports: AnsweredRemarksPorts
  /** Changed, and not landed yet. */
  readonly #uncommitted = new Map<string, StoredRemarks>()
  #toWrite = new Map<string, StoredRemarks>()

  constructor(ports: AnsweredRemarksPorts) {
    this.#ports = ports
  }

  /** undefined: it is not known. */
  answered(runId: string, url: string): ReadonlySet<string> | undefined {
    const stored = this.#read(runId)
    return stored?.url === url && stored.answered !== undefined ? new Set(stored.answered) : undefined
  }

  /** A worker is given a follow-up. */
  recordOffer(runId: string, { followUp, url, keys, answered, isAgain }: RemarkOffer): void {
    const stored = this.#read(runId)
    const earlierKeys = stored?.offered?.followUp === followUp ? stored.offered.keys : isAgain ? [] : keys
    const alwaysOffered = new Set(earlierKeys)
    const offer = { followUp, keys: [...answered, ...keys.filter((key) => alwaysOffered.has(key))] }
    this.#set(runId, { ...(stored?.url === url ? stored : { url }), offered: offer })
  }

  recordEnd(runId: string, followUp: string, isDone: boolean): void {
    const { offered, ...stored } = { ...this.#read(runId) }
    if (stored.url === undefined || offered?.followUp !== followUp) return
    const { url } = stored
    this.#set(runId, isDone ? { url, answered: offered.keys } : { ...stored, url })
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
        for (const [runId, stored] of written)
          if (this.#uncommitted.get(runId) === stored) this.#uncommitted.delete(runId)
      },
    }
  }

  #read(runId: string): StoredRemarks | undefined {
    // Only this class writes to the shelf.
    return (
      this.#uncommitted.get(runId) ?? (this.#ports.keyValues.get('told', runId) as StoredRemarks | undefined)
    )
  }

  #set(runId: string, stored: StoredRemarks): void {
    this.#uncommitted.set(runId, stored)
    this.#toWrite.set(runId, stored)
    this.#ports.requestCommit()
  }
}
