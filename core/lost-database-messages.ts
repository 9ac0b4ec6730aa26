/**
 * The messages about a database that must not be used, and their cures in an order that destroys nothing.
 *
 * A command that replaces a database with content keeps it beside the new one, because it may be the only copy.
 */

import { quoteWord } from '../protocol/quote-word.ts'
import type { RecordedInstallation, TruncatedDatabase } from './installation.ts'

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
