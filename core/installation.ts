/**
 * An installation is one data directory with its database; its id is stored in both. `judgeDatabase` tells whether they
 * belong together, and the messages say what to do when they do not.
 *
 * The id tells a new data directory from one whose database was deleted, emptied or replaced. Workers store the id
 * beside their credential, so that only their own installation can make them delete it. The cures of the messages
 * destroy nothing: a command that replaces a database with content keeps it beside the new one, because it may be the
 * only copy.
 */
import { quoteWord } from '../protocol/quote-word.ts'

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

// ---- the messages about a database that must not be used ---------------------------------------------------------

export interface DatabasePlaces {
  readonly dataDir: string
  /** The folder of the database. */
  readonly state: string
  /** The file with the recorded id. */
  readonly record: string
  /** A folder with another database that could be restored. */
  readonly backup?: string
}

/** The end of the name of a folder with a database that was replaced. */
export const SET_ASIDE = '.set-aside'

export function emptiedMessage(places: DatabasePlaces): string {
  return (
    `the database in ${places.state} is missing or empty, but this directory has been in use. ` +
    `${howToRestore(places)}. ${howToGiveUp(places)}`
  )
}

/** `mayBeEmptied`: a start without a database goes on with a new one. */
export function truncatedMessage(
  places: DatabasePlaces,
  { path, bytes, bytesMin }: TruncatedDatabase,
  mayBeEmptied: boolean,
): string {
  const orElse = mayBeEmptied
    ? `To go on without its content instead, move ${places.state} away and start again`
    : howToGiveUp(places)
  return (
    `the database file ${path} is truncated: it has ${bytes} bytes, but its content needs ${bytesMin}. ` +
    `${howToReplace(places)}. ${orElse}`
  )
}

export function foreignMessage(places: DatabasePlaces, id: string, recordedId: string): string {
  const { state, record } = places
  return (
    `the database in ${state} belongs to the installation ${id}, but ${record} names ${recordedId}. ` +
    `First check whether a wrong folder was copied here, or a wrong --data-dir given. ${howToReplace(places)}. ` +
    `Delete ${record} only if this directory shall be the installation ${id} from now on, then start again`
  )
}

export function outdatedMessage(places: DatabasePlaces, recorded: RecordedInstallation): string {
  const { state, record } = places
  const about = recorded.is === 'known' ? `but ${record} names ${recorded.id}` : `and ${record} is damaged`
  return (
    `the database in ${state} was written by an earlier version and names no installation, ${about}: ` +
    'it is an old backup of this directory, or the database of another one. First check where it comes from, and ' +
    `whether you have a newer backup. ${howToReplace(places)}. Delete ${record} only if you want to go on from ` +
    'this database, then start again'
  )
}

/** For a missing or empty database: the command overwrites nothing. */
export function howToRestore(places: DatabasePlaces): string {
  return restoreWith(places, copyCommand(places))
}

function howToReplace(places: DatabasePlaces): string {
  const [state, setAside] = [quoteWord(places.state), quoteWord(`${places.state}${SET_ASIDE}`)]
  return restoreWith(places, `mv ${state} ${setAside} && ${copyCommand(places)}`)
}

const copyCommand = ({ state, backup }: DatabasePlaces): string =>
  `cp -a ${backup === undefined ? 'BACKUP' : quoteWord(backup)}/. ${quoteWord(state)}`

function restoreWith({ backup }: DatabasePlaces, command: string): string {
  const what = backup === undefined ? 'where BACKUP is your backup of the folder state, ' : ''
  return `Restore it with "${command}", ${what}then start again`
}

function howToGiveUp({ dataDir }: DatabasePlaces): string {
  return (
    `To give up its runs and workers instead, move ${dataDir} away and start with a new directory that holds only ` +
    'its config.json'
  )
}
