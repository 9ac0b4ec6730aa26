/**
 * Small plain values in LMDB, all shelves in one table, each behind a letter of its own.
 */
import type { KeyValueCollection, KeyValues } from '../../core/ports.ts'
import { StoreUnreadable } from '../errors.ts'
import { isKey, type Tables } from './tables.ts'

/** Read at once, so that walking a shelf holds no transaction open while the caller works: so many, or so much. */
const PAGE = 256
const PAGE_BYTES = 4 * 1024 * 1024
/** Never given twice. */
const SHELF_CODE: Readonly<Record<KeyValueCollection, string>> = {
  'ended-lease': 'l',
  mark: 'm',
  memory: 'y',
  ticket: 't',
  errand: 'e',
  frame: 'f',
  outbox: 'o',
  session: 's',
  told: 'd',
}

export const factKey = (shelf: KeyValueCollection, key: string): string => SHELF_CODE[shelf] + key

export class LmdbFacts implements KeyValues {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  get(shelf: KeyValueCollection, key: string): object | undefined {
    if (!isKey(key)) return undefined
    const bytes = this.#tables.facts.get(factKey(shelf, key))
    return bytes === undefined ? undefined : this.#decode(shelf, key, bytes)
  }

  *all(
    shelf: KeyValueCollection,
    between: { readonly after?: string; readonly until?: string } = {},
  ): Generator<readonly [string, object]> {
    const end = between.until === undefined ? behind(shelf) : factKey(shelf, between.until)
    let start = factKey(shelf, between.after ?? '')
    for (;;) {
      const page = this.#page(start, end)
      const last = page.at(-1)
      for (const { key, value } of page.splice(0))
        yield [key.slice(1), this.#decode(shelf, key.slice(1), value)]
      if (last === undefined) return
      start = last.key
    }
  }

  /** Empty only behind the last one. */
  #page(start: string, end: string): { readonly key: string; readonly value: Uint8Array }[] {
    const page: { readonly key: string; readonly value: Uint8Array }[] = []
    let bytes = 0
    for (const entry of this.#tables.facts.getRange({ start, end, exclusiveStart: true, limit: PAGE })) {
      page.push(entry)
      bytes += entry.value.length
      if (bytes >= PAGE_BYTES) break
    }
    return page
  }

  #decode(shelf: KeyValueCollection, key: string, bytes: Uint8Array): object {
    const value = this.#tables.codec.decode(bytes)
    if (typeof value === 'object' && value !== null) return value
    throw new StoreUnreadable(`the ${shelf} of ${key} is damaged; restore the state folder from a backup`)
  }
}

/** Above every key of the shelf, at or below every key of the next one. */
function behind(shelf: KeyValueCollection): string {
  return String.fromCharCode(SHELF_CODE[shelf].charCodeAt(0) + 1)
}
