/**
 * Errors of the store, as types, so that the starting process can tell them apart and end with the right exit code.
 * Each message says what the person can do next.
 */

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

/** Another live host works in this data directory. */
export class DataDirInUse extends Error {
  override readonly name = 'DataDirInUse'
  readonly pid: number
  constructor(dataDir: string, pid: number) {
    super(
      `${dataDir} is in use by another switchyard (process ${pid}); stop it, or start with another --data-dir`,
    )
    this.pid = pid
  }
}

/** Returns the code of a failed system call (`ENOENT`), whatever realm the error comes from. */
export function codeOf(error: unknown): string | number | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  const { code } = error
  return typeof code === 'string' || typeof code === 'number' ? code : undefined
}

/** Tells whether an error means that the disk, or our quota on it, is full. */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}

/** Returns the message of an error, for a log or a reason. */
export function messageOf(error: unknown): string {
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message)
  return String(error)
}
