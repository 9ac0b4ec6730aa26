/** Keys of key-values: all collections share one table, and each key starts with its collection's letter. */
import type { KeyValueCollection } from '../../core/ports.ts'

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

export const keyValueKey = (collection: KeyValueCollection, key: string): string =>
  COLLECTION_CODE[collection] + key

/** Above every key of the collection, at or below every key of the next one. */
export function endOfCollection(collection: KeyValueCollection): string {
  return String.fromCharCode(COLLECTION_CODE[collection].charCodeAt(0) + 1)
}

/** Splits a key as it is stored, which may be damaged. */
export const splitKeyValueKey = (key: string): { readonly collection: string; readonly key: string } => ({
  collection: COLLECTION_OF.get(key.charAt(0)) ?? 'value',
  key: key.slice(1),
})
