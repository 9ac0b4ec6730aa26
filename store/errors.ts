/**
 * Errors of the store, as types, so that the starting process can tell them apart and end with the right exit code.
 * Each message says what the person can do next.
 */
import { DAMAGE_CURE } from '../core/damage.ts'
import { codeOf } from '../protocol/message-of.ts'

/** The database was written by a newer switchyard. */
export class StoreTooNew extends Error {
  override readonly name = 'StoreTooNew'
  readonly found: number
  readonly known: number
  constructor(folder: string, found: number, known: number) {
    super(
      `${folder} was written by a newer switchyard (format ${found}, this one knows ${known}); ` +
        'install that version again, or start with another --data-dir',
    )
    this.found = found
    this.known = known
  }
}

/** The database cannot be opened, or one of its records cannot be read. */
export class StoreUnreadable extends Error {
  override readonly name = 'StoreUnreadable'
}

/** Pages of the database are damaged, so that it cannot be used at all. */
export class DatabaseDamaged extends StoreUnreadable {
  constructor(folder: string, damage: readonly string[]) {
    const more = damage.length > 1 ? `, and ${damage.length - 1} more` : ''
    super(`the database in ${folder} is damaged: ${damage[0]}${more}; ${DAMAGE_CURE}`)
  }
}

/** The database is missing, emptied, or of another installation. */
export class DatabaseLost extends Error {
  override readonly name = 'DatabaseLost'
}

/** The disk has no space to create the database. */
export class StoreFull extends Error {
  override readonly name = 'StoreFull'
  readonly code = 'ENOSPC'
}

/** The given folder is not a data directory of switchyard. */
export class NotADataDir extends Error {
  override readonly name = 'NotADataDir'
}

/** A write or sync failed for good. Acknowledged data is on disk; no other data is guaranteed. */
export class StoreBroken extends Error {
  override readonly name = 'StoreBroken'
}

/** A write was requested while or after the store was closed. */
export class StoreClosed extends Error {
  override readonly name = 'StoreClosed'
}

/** Another process owns this data directory, or may do so. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse'
  /** Whether the owner is known to live; otherwise a person may know better. */
  readonly isAlive: boolean
  /** Names the directory and its owner. */
  readonly where: string
  /** @param owner its process, its machine, and since when it owns the directory */
  constructor(
    dataDir: string,
    owner: string,
    { isAlive, takesOver }: { isAlive: boolean; takesOver: boolean },
  ) {
    super(
      isAlive
        ? `${dataDir} is in use by another switchyard (${owner})${takesOver ? ' that is alive, so it cannot be taken over' : ''}; ` +
            'stop it, or start with another --data-dir'
        : `${dataDir} belongs to another switchyard (${owner}), and this machine cannot see whether it is still running; ` +
            'stop it there, or start with another --data-dir',
    )
    this.isAlive = isAlive
    this.where = `${dataDir} belongs to another switchyard (${owner})`
  }
}

/** Tells whether an error means that this user may not do it, as with a file of another user. */
export function isNotPermitted(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'EACCES' || code === 'EPERM'
}
