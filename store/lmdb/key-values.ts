/**
 * Key-values in LMDB: all collections share one table, and each key starts with its collection's letter.
 */
import type { KeyValueCollection, KeyValues } from '../../core/ports.ts'
import { StoreUnreadable } from '../errors.ts'
import { isKey, type Tables } from './tables.ts'

/**
 * Entries or bytes that are read at once, so that iterating a collection holds no transaction open while the caller
 * works.
 */
const PAGE_ENTRIES = 256
const PAGE_BYTES = 4 * 1024 * 1024
/** Letters are never reused. */
const COLLECTION_CODE: Readonly<Record<KeyValueCollection, string>> = {
  'ended-lease': 'l',
  mark: 'm',
  memory: 'y',
  ticket: 't',
  errand: 'e',
  frame: 'f',
  outbox: 'o',
  session: 's',
  told: 'd',
  settlement: 'c',
  'settled-lease': 'x',
  'day-costs': 'u',
  'join-key': 'j',
}

export const keyValueKey = (collection: KeyValueCollection, key: string): string =>
  COLLECTION_CODE[collection] + key

export class LmdbKeyValues implements KeyValues {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  get(collection: KeyValueCollection, key: string): object | undefined {
    if (!isKey(key)) return undefined
    const bytes = this.#tables.keyValues.get(keyValueKey(collection, key))
    return bytes === undefined ? undefined : this.#decode(collection, key, bytes)
  }

  *all(
    collection: KeyValueCollection,
    between: { readonly after?: string; readonly until?: string } = {},
  ): Generator<readonly [string, object]> {
    const end =
      between.until === undefined ? endOfCollection(collection) : keyValueKey(collection, between.until)
    let start = keyValueKey(collection, between.after ?? '')
    for (;;) {
      const page = this.#readPage(start, end)
      const last = page.at(-1)
      for (const { key, value } of page.splice(0))
        yield [key.slice(1), this.#decode(collection, key.slice(1), value)]
      if (last === undefined) return
      start = last.key
    }
  }

  /** Empty only after the last entry. */
  #readPage(start: string, end: string): { readonly key: string; readonly value: Uint8Array }[] {
    const page: { readonly key: string; readonly value: Uint8Array }[] = []
    let bytes = 0
    for (const entry of this.#tables.keyValues.getRange({
      start,
      end,
      exclusiveStart: true,
      limit: PAGE_ENTRIES,
    })) {
      page.push(entry)
      bytes += entry.value.length
      if (bytes >= PAGE_BYTES) break
    }
    return page
  }

  #decode(collection: KeyValueCollection, key: string, bytes: Uint8Array): object {
    const value = this.#tables.codec.decode(bytes)
    if (typeof value === 'object' && value !== null) return value
    throw new StoreUnreadable(
      `the ${collection} of ${key} is damaged; restore the state folder from a backup`,
    )
  }
}

/** Above every key of the collection, at or below every key of the next one. */
function endOfCollection(collection: KeyValueCollection): string {
  return String.fromCharCode(COLLECTION_CODE[collection].charCodeAt(0) + 1)
}
