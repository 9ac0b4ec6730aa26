/**
 * StoredCollection holds key-values of one collection for the one class that writes these keys.
 *
 * A changed value is in memory at once and on disk with the next commit. Where `keepsValues` is set, values stay in memory
 * after they were read or written.
 */
import { type Damage, readOr } from '../../core/damage.ts'
import type { KeyValueCollection, KeyValues, Write } from '../../core/ports/store.ts'
import type { CommitContribution, CommitParticipant } from './commit-loop.ts'

export interface StoredCollectionPorts {
  readonly keyValues: KeyValues
  readonly requestCommit: () => void
}

/** Changed values by their key; null for a deleted one. */
export type WrittenValues<T> = ReadonlyMap<string, T | null>

export interface StoredCollectionOptions<T> {
  /** Called with the changed values of a commit that is on disk. */
  readonly onCommitted?: (written: WrittenValues<T>) => void
  /** For values that are read again and again, and are not megabytes each: at most `KEPT_VALUES_MAX` stay in memory. */
  readonly keepsValues?: true
}

/** With more values than this, the half that came first is dropped from memory. */
export const KEPT_VALUES_MAX = 1_024

export class StoredCollection<T extends object> implements CommitParticipant {
  readonly #collection: KeyValueCollection
  readonly #ports: StoredCollectionPorts
  readonly #options: StoredCollectionOptions<T>
  /** Changed values that are not on disk yet; null for a deleted one. */
  readonly #uncommitted = new Map<string, T | null>()
  #toWrite = new Map<string, T | null>()
  /** Values as they are on disk, the one that came first first; null for a key without a value. */
  readonly #kept = new Map<string, T | null>()

  constructor(
    collection: KeyValueCollection,
    ports: StoredCollectionPorts,
    options: StoredCollectionOptions<T> = {},
  ) {
    this.#collection = collection
    this.#ports = ports
    this.#options = options
  }

  /** Returns the latest value, on disk or not. A damaged one counts as none; people see it in the list of damage. */
  get(key: string): T | undefined {
    const changed = this.#uncommitted.get(key)
    if (changed !== undefined) return changed ?? undefined
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept ?? undefined
    // The cast holds because only the owner of the keys writes them.
    const read = readOr(
      () => this.#ports.keyValues.get(this.#collection, key) as T | undefined,
      () => undefined,
    )
    this.#keep(key, read ?? null)
    return read
  }

  /** Returns why the value on disk cannot be read, where an owner must not take it for none. */
  damageOf(key: string): Damage | undefined {
    return readOr<Damage | undefined>(
      () => void this.#ports.keyValues.get(this.#collection, key),
      (damage) => damage,
    )
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
          this.#keep(key, value)
        }
        this.#options.onCommitted?.(written)
      },
    }
  }

  #keep(key: string, value: T | null): void {
    if (this.#options.keepsValues !== true) return
    if (this.#kept.size >= KEPT_VALUES_MAX && !this.#kept.has(key))
      for (const old of [...this.#kept.keys()].slice(0, KEPT_VALUES_MAX / 2)) this.#kept.delete(old)
    this.#kept.set(key, value)
  }
}
