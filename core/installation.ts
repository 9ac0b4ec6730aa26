/**
 * An installation is one data directory with its database; its id is stored in both.
 *
 * The id tells a new data directory from one whose database was deleted, emptied or replaced. Workers store the id
 * beside their credential, so that only their own installation can make them delete it.
 */

const ID = /^in-[0-9a-f]{16}$/
const ID_BYTES = 8

/** The record in the data directory, outside its database. */
export type RecordedInstallation =
  /** No id is recorded. `hasHistory`: other files show that a database existed here. */
  | { readonly is: 'none'; readonly hasHistory: boolean }
  /** An id was recorded and cannot be read. */
  | { readonly is: 'damaged' }
  | { readonly is: 'known'; readonly id: string }

/** A database file that has fewer bytes than its content needs, so that it must not be opened. */
export interface TruncatedDatabase {
  readonly is: 'truncated'
  readonly path: string
  readonly bytes: number
  readonly bytesMin: number
}

export type FoundDatabase =
  /** The file is missing, has no bytes, or holds nothing of ours. */
  | { readonly is: 'empty' }
  | TruncatedDatabase
  /** An earlier version created the database and gave it no id. */
  | { readonly is: 'unnamed' }
  | { readonly is: 'named'; readonly id: string }

export type DatabaseVerdict =
  | { readonly is: 'own'; readonly id: string }
  /** The installation has no id yet. */
  | { readonly is: 'new' }
  /** The installation had a database whose content is gone. */
  | { readonly is: 'emptied' }
  | TruncatedDatabase
  /** The database belongs to another installation than the recorded one. */
  | { readonly is: 'foreign'; readonly id: string; readonly recordedId: string }
  /** The database is older than the recorded id: a foreign database or an old backup. */
  | { readonly is: 'outdated' }

export function judgeDatabase(recorded: RecordedInstallation, found: FoundDatabase): DatabaseVerdict {
  switch (found.is) {
    case 'named':
      if (recorded.is === 'known' && recorded.id !== found.id)
        return { is: 'foreign', id: found.id, recordedId: recorded.id }
      return { is: 'own', id: found.id }
    case 'unnamed':
      return recorded.is === 'none' ? { is: 'new' } : { is: 'outdated' }
    case 'truncated':
      return found
    case 'empty':
      return recorded.is === 'none' && !recorded.hasHistory ? { is: 'new' } : { is: 'emptied' }
  }
}

export function newInstallationId(bytes: Uint8Array): string {
  if (bytes.length < ID_BYTES) throw new RangeError(`needs ${ID_BYTES} random bytes, got ${bytes.length}`)
  return `in-${Buffer.from(bytes.subarray(0, ID_BYTES)).toString('hex')}`
}

export const isInstallationId = (value: unknown): value is string =>
  typeof value === 'string' && ID.test(value)
