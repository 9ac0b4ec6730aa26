/**
 * AnsweredRemarks stores which remarks on its pull request the follow-ups of a run have answered, so that no follow-up
 * receives a remark again and none is left out.
 *
 * A remark counts as answered when a follow-up that received it completed. An interrupted follow-up may have done its
 * work in any of its attempts, so only remarks that every attempt received count. In doubt a remark is sent once more.
 */
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

/** The value on disk. */
interface StoredRemarks {
  /** Address of the pull request. */
  readonly url: string
  /** Keys of answered remarks. Absent: no follow-up is known to have completed. */
  readonly answered?: readonly string[]
  /** Keys of the remarks that become `answered` when the current follow-up completes. */
  readonly offered?: { readonly followUp: string; readonly keys: readonly string[] }
}

export interface RemarkOffer {
  readonly followUp: string
  readonly url: string
  /** Keys of the remarks that this attempt is given. */
  readonly keys: readonly string[]
  /** Keys of the remarks that earlier follow-ups answered. */
  readonly answered: readonly string[]
  /** Whether the follow-up was started before. */
  readonly isAgain: boolean
}

export class AnsweredRemarks implements CommitParticipant {
  readonly #stored: StoredCollection<StoredRemarks>

  constructor(ports: StoredCollectionPorts) {
    this.#stored = new StoredCollection('told', ports)
  }

  /** Returns the keys of answered remarks; undefined when they are not known. */
  answered(runId: string, url: string): ReadonlySet<string> | undefined {
    const stored = this.#stored.get(runId)
    return stored?.url === url && stored.answered !== undefined ? new Set(stored.answered) : undefined
  }

  /** Records the remarks that a worker receives with a follow-up. */
  recordOffer(runId: string, { followUp, url, keys, answered, isAgain }: RemarkOffer): void {
    const stored = this.#stored.get(runId)
    const earlierKeys = stored?.offered?.followUp === followUp ? stored.offered.keys : isAgain ? [] : keys
    const alwaysOffered = new Set(earlierKeys)
    const offer = { followUp, keys: [...answered, ...keys.filter((key) => alwaysOffered.has(key))] }
    this.#stored.set(runId, { ...(stored?.url === url ? stored : { url }), offered: offer })
  }

  recordEnd(runId: string, followUp: string, isDone: boolean): void {
    const { offered, ...stored } = { ...this.#stored.get(runId) }
    if (stored.url === undefined || offered?.followUp !== followUp) return
    const { url } = stored
    this.#stored.set(runId, isDone ? { url, answered: offered.keys } : { ...stored, url })
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }
}
