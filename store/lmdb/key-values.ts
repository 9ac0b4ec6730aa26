/** Key-values in LMDB. A look-up of a damaged value throws; a walk leaves it out, and it is in the list of damage. */
import type { KeyList, KeysBetween, KeyValueCollection, KeyValues } from '../../core/ports/store.ts'
import { isKey, type TableRow } from './table.ts'
import type { Tables } from './tables.ts'

/**
 * Entries or bytes that are read at once, so that iterating a collection holds no transaction open while the caller
 * works.
 */
const PAGE_ENTRIES = 256
const PAGE_BYTES = 4 * 1024 * 1024

interface KeyRange {
  readonly start: string
  readonly end: string
  readonly exclusiveStart: true
}

export class LmdbKeyValues implements KeyValues, KeyList {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  get(collection: KeyValueCollection, key: string): object | undefined {
    if (!isKey(key)) return undefined
    const row = keyValueKey(collection, key)
    const bytes = this.#tables.keyValues.get(row)
    if (bytes === undefined) return undefined
    const value = this.#decoded(bytes)
    if (value === undefined) throw this.#tables.damage.noteRow(this.#tables.keyValues.name, row)
    return value
  }

  *all(collection: KeyValueCollection, between?: KeysBetween): Generator<readonly [string, object]> {
    let range = rangeOf(collection, between)
    for (;;) {
      const page = this.#readPage(range)
      const last = page.at(-1)
      for (const { key, value } of page.splice(0)) {
        const decoded = value === undefined ? undefined : this.#decoded(value)
        if (decoded !== undefined) yield [key.slice(1), decoded]
        else this.#tables.damage.noteRow(this.#tables.keyValues.name, key)
      }
      if (last === undefined) return
      range = { ...range, start: last.key }
    }
  }

  *keys(collection: KeyValueCollection, between?: KeysBetween): Generator<string> {
    let range = rangeOf(collection, between)
    for (;;) {
      const page = [...this.#tables.keyValues.getKeys({ ...range, limit: PAGE_ENTRIES })]
      const last = page.at(-1)
      for (const key of page) yield key.slice(1)
      if (last === undefined) return
      range = { ...range, start: last }
    }
  }

  /** Empty only after the last entry. */
  #readPage(range: KeyRange): TableRow[] {
    const page: TableRow[] = []
    let bytes = 0
    for (const entry of this.#tables.keyValues.getRange({ ...range, limit: PAGE_ENTRIES })) {
      page.push(entry)
      bytes += entry.value?.length ?? 0
      if (bytes >= PAGE_BYTES) break
    }
    return page
  }

  /** Returns undefined for bytes that are no value. */
  #decoded(bytes: Uint8Array): object | undefined {
    try {
      const value = this.#tables.codec.decode(bytes)
      return typeof value === 'object' && value !== null ? value : undefined
    } catch {
      return undefined
    }
  }
}

const rangeOf = (collection: KeyValueCollection, { after = '', until }: KeysBetween = {}): KeyRange => ({
  start: keyValueKey(collection, after),
  end: until === undefined ? endOfCollection(collection) : keyValueKey(collection, until),
  exclusiveStart: true,
})

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
  clock: 'k',
  trouble: 'a',
}
const COLLECTION_OF = new Map(Object.entries(COLLECTION_CODE).map(([name, code]) => [code, name]))

/** Keys of key-values: all collections share one table, and each key starts with its collection's letter. */
export const keyValueKey = (collection: KeyValueCollection, key: string): string =>
  COLLECTION_CODE[collection] + key

/** Above every key of the collection, at or below every key of the next one. */
function endOfCollection(collection: KeyValueCollection): string {
  return String.fromCharCode(COLLECTION_CODE[collection].charCodeAt(0) + 1)
}

/** Splits a key as it is stored, which may be damaged. */
export const splitKeyValueKey = (key: string): { readonly collection: string; readonly key: string } => ({
  collection: COLLECTION_OF.get(key.charAt(0)) ?? 'value',
  key: key.slice(1),
})
