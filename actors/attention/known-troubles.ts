/**
 * KnownTroubles remembers on disk what needs a person where no other record says it: what the trouble is, and since when.
 *
 * A restart therefore neither forgets a trouble nor dates it anew. Each kind has a bounded number of troubles: the one
 * that was set first is dropped. When a trouble begins and ends is for others to judge.
 */
import type { UsageLimitEvent } from '../../core/attention/facts.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { defineHostModule } from '../host-context.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { StoredCollection, type StoredCollectionPorts } from '../runtime/stored-collection.ts'

export interface Trouble {
  readonly since: string
  /** The trouble in the words of a queue reason. */
  readonly reason?: string
  readonly limit?: UsageLimitEvent
  /** The last status of the tracker, until the next process has asked it. */
  readonly tracker?: Pick<TrackerStatus, 'state' | 'error'>
}

/**
 * With its subject: `conflict` and `verdict`: the address of a pull request; its checks or reviewers have given the verdict.
 * `limit`: a run. `repository`: a remote that workers can't read, as a queue reason names it. `pulls`: a remote whose pull
 * requests the host can't read. `follow-up`: a run whose pull request the host can't read before its follow-up.
 * `damage`: the id of a damage. `acknowledged`: the id of a damage that a person knows to be lost.
 * `publish`: the beginning of a cause for which finished work can't be published.
 * `away`: a worker whose connection has ended while it holds finished work. `worker-disk`: a worker that refused a
 * dispatch for its full disk. `tracker` and `disk` have the one subject ''.
 */
export type TroubleKind =
  | 'conflict'
  | 'verdict'
  | 'limit'
  | 'repository'
  | 'pulls'
  | 'follow-up'
  | 'damage'
  | 'acknowledged'
  | 'publish'
  | 'tracker'
  | 'disk'
  | 'away'
  | 'worker-disk'

interface StoredTrouble {
  readonly version: number
  readonly kind: TroubleKind
  readonly subject: string
  readonly trouble: Trouble
}

const VERSION = 1
/** A longer key has no place in the database, so its trouble lasts until the next start. */
const KEY_BYTES_MAX = 400

export class KnownTroubles implements CommitParticipant {
  readonly #stored: StoredCollection<StoredTrouble>
  readonly #byKind = new Map<TroubleKind, Map<string, Trouble>>()

  constructor(ports: StoredCollectionPorts) {
    this.#stored = new StoredCollection('trouble', ports)
    const rows = [...this.#stored.listDurable()].flatMap(([, row]) => (row.version === VERSION ? [row] : []))
    rows.sort((a, b) => (a.trouble.since < b.trouble.since ? -1 : 1))
    for (const { kind, subject, trouble } of rows) this.#mapOf(kind).set(subject, trouble)
  }

  /** The troubles by subject, the one that was set first in front. */
  of(kind: TroubleKind): ReadonlyMap<string, Trouble> {
    return this.#mapOf(kind)
  }

  /** Records a trouble, which keeps its beginning while it is known. Returns whether anything changed. */
  begin(kind: TroubleKind, subject: string, trouble: Trouble): boolean {
    const known = this.#mapOf(kind).get(subject)
    const next = known === undefined ? trouble : { ...trouble, since: known.since }
    if (known !== undefined && JSON.stringify(next) === JSON.stringify(known)) return false
    this.set(kind, subject, next)
    return true
  }

  /** Records a trouble in place of an earlier one. */
  set(kind: TroubleKind, subject: string, trouble: Trouble): void {
    const troubles = this.#mapOf(kind)
    troubles.delete(subject)
    troubles.set(subject, trouble)
    this.#write(kind, subject, trouble)
    const [oldest] = troubles.keys()
    if (oldest !== undefined && troubles.size > ATTENTION_RUNS_MAX) this.end(kind, oldest)
  }

  /** Returns whether the trouble was known. */
  end(kind: TroubleKind, subject: string): boolean {
    const wasKnown = this.#mapOf(kind).delete(subject)
    if (wasKnown) this.#write(kind, subject, null)
    return wasKnown
  }

  get size(): number {
    return [...this.#byKind.values()].reduce((sum, troubles) => sum + troubles.size, 0)
  }

  contribute(): CommitContribution | undefined {
    return this.#stored.contribute()
  }

  #write(kind: TroubleKind, subject: string, trouble: Trouble | null): void {
    const key = `${kind} ${subject}`
    if (Buffer.byteLength(key) > KEY_BYTES_MAX) return
    this.#stored.set(key, trouble === null ? null : { version: VERSION, kind, subject, trouble })
  }

  #mapOf(kind: TroubleKind): Map<string, Trouble> {
    const known = this.#byKind.get(kind)
    if (known !== undefined) return known
    const troubles = new Map<string, Trouble>()
    this.#byKind.set(kind, troubles)
    return troubles
  }
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly troubles: KnownTroubles
  }
}

/** The troubles module stores what needs a person where no other record says it, for the modules that find it. */
export const troublesModule = defineHostModule({
  name: 'troubles',
  create({ store, requestCommit }) {
    const troubles = new KnownTroubles({ keyValues: store.database.keyValues, requestCommit })
    return { view: troubles, participants: [troubles], sizes: () => ({ troubles: troubles.size }) }
  },
})
