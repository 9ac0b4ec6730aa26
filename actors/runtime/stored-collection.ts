/**
 * StoredCollection holds key-values of one collection for the one class that writes these keys.
 *
 * A changed value is in memory at once and on disk with the next commit. Values that were needed lately stay in memory:
 * the value of a ticket is read several times while its run ends, the memories of a repository at every dispatch.
 */
import type { KeyValueCollection, KeyValues, Write } from '../../core/ports.ts'
import type { CommitContribution, CommitParticipant } from './commit-loop.ts'

export interface StoredCollectionPorts {
  readonly keyValues: KeyValues
  readonly requestCommit: () => void
}

/** Changed values by their key; null for a deleted one. */
export type WrittenValues<T> = ReadonlyMap<string, T | null>

/** With more values than this, the older half of those that were needed lately is dropped from memory. */
export const RECENT_VALUES_MAX = 1_024

export class StoredCollection<T extends object> implements CommitParticipant {
  readonly #collection: KeyValueCollection
  readonly #ports: StoredCollectionPorts
  readonly #onCommitted: (written: WrittenValues<T>) => void
  /** Changed values that are not on disk yet; null for a deleted one. */
  readonly #uncommitted = new Map<string, T | null>()
  #toWrite = new Map<string, T | null>()
  /** Values as they are on disk, the one that came first first; null for a key without a value. */
  readonly #recent = new Map<string, T | null>()

  /** @param onCommitted called with the changed values of a commit that is on disk */
  constructor(
    collection: KeyValueCollection,
    ports: StoredCollectionPorts,
    onCommitted: (written: WrittenValues<T>) => void = () => {},
  ) {
    this.#collection = collection
    this.#ports = ports
    this.#onCommitted = onCommitted
  }

  /** Returns the latest value, on disk or not. */
  get(key: string): T | undefined {
    const changed = this.#uncommitted.get(key)
    if (changed !== undefined) return changed ?? undefined
    const recent = this.#recent.get(key)
    if (recent !== undefined) return recent ?? undefined
    // The cast holds because only the owner of the keys writes them.
    const read = this.#ports.keyValues.get(this.#collection, key) as T | undefined
    this.#keepRecent(key, read ?? null)
    return read
  }

  /** Lists the values on disk. */
  *listDurable(): Iterable<readonly [key: string, value: T]> {
    // The cast holds because only the owner of the keys writes them.
    for (const [key, value] of this.#ports.keyValues.all(this.#collection)) yield [key, value as T]
  }

  /** Replaces a value; null deletes it. */
  set(key: string, value: T | null): void {
    this.#uncommitted.set(key, value)
    this.#toWrite.set(key, value)
    this.#ports.requestCommit()
  }

  contribute(): CommitContribution | undefined {
    if (this.#toWrite.size === 0) return undefined
    const written = this.#toWrite
    this.#toWrite = new Map()
    return {
      writes: [...written].map(
        ([key, value]): Write => ({ table: 'key-value', collection: this.#collection, key, value }),
      ),
      onCommitted: () => {
        for (const [key, value] of written) {
          if (this.#uncommitted.get(key) === value) this.#uncommitted.delete(key)
          this.#keepRecent(key, value)
        }
        this.#onCommitted(written)
      },
    }
  }

  #keepRecent(key: string, value: T | null): void {
    if (this.#recent.size >= RECENT_VALUES_MAX)
      for (const old of [...this.#recent.keys()].slice(0, RECENT_VALUES_MAX / 2)) this.#recent.delete(old)
    this.#recent.set(key, value)
  }
}
