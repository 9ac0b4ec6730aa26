/**
 * Prepares the data directory: creates it or checks that it is ours, restricts it to its user, locks it, and keeps it
 * usable when the disk is full.
 */
import { chmod, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../core/ports/log.ts'
import { isDiskFull } from '../protocol/message-of.ts'
import { DataDirInUse, NotADataDir } from './errors.ts'
import { makeFolder } from './files/atomic.ts'
import { findUser } from './lmdb/open-environment.ts'
import { acquireLock, findHiddenOwner, type Lock, type LockOptions } from './lock.ts'
import { inTurn } from './lock-files.ts'

/**
 * Creates the folder with mode 0700. Rejects with NotADataDir for a folder with other content, and for root in
 * a folder of another user; a name from `knownNames` proves that the folder is a data directory.
 */
export async function makeOwnerOnly(folder: string, knownNames: readonly string[]): Promise<void> {
  await makeFolder(folder)
  await refuseRoot(folder)
  const { mode } = await stat(folder)
  if ((mode & 0o077) === 0) return
  // A home directory or shared folder given by mistake must not be closed to its users.
  const names = await readdir(folder)
  if (names.length > 0 && !knownNames.some((mark) => names.includes(mark))) {
    throw new NotADataDir(
      `${folder} has other content and is open to other users, so it is left unchanged; name an empty or new folder as --data-dir`,
    )
  }
  await chmod(folder, 0o700)
}

async function refuseRoot(folder: string): Promise<void> {
  const { uid } = await stat(folder)
  if (process.geteuid?.() !== 0 || uid === 0) return
  throw new NotADataDir(
    `${folder} belongs to user ${uid}, who could not read what root leaves there; ` +
      `start as that user (sudo -u '#${uid}' …), or name a folder of root as --data-dir`,
  )
}

export interface LockDataDirOptions extends LockOptions {
  readonly dataDir: string
  readonly log: Log
}

/**
 * Rejects with DataDirInUse while another process owns the data directory, or may do so, and with NotADataDir for root in
 * a directory of another user.
 */
export async function lockDataDir(options: LockDataDirOptions): Promise<Lock> {
  const { dataDir, log } = options
  await refuseRoot(dataDir)
  // Starts that look for a hidden owner open the database, so two at one instant would take each other for it.
  const lock =
    findHiddenOwner(dataDir) === undefined
      ? await acquire(options)
      : await inTurn(dataDir, async () => {
          await refuseHiddenOwner(options)
          return await acquire(options)
        })
  if (process.platform === 'linux' && !lock.hasKernelLock)
    log.warn(
      { dataDir },
      'other containers cannot see that this data directory is in use: install flock (util-linux), ' +
        'or use a file system that has locks',
    )
  return lock
}

const acquire = ({ dataDir, ...options }: LockDataDirOptions) =>
  withEmergencySpace(dataDir, () => acquireLock(dataDir, options))

async function refuseHiddenOwner({ dataDir, takeOver }: LockDataDirOptions): Promise<void> {
  const describe = findHiddenOwner(dataDir)
  const user = describe && (await findUser(join(dataDir, 'state')))
  if (describe !== undefined && user !== undefined)
    throw new DataDirInUse(dataDir, describe(user), { isAlive: true, takesOver: takeOver !== undefined })
}

/** Runs `attempt`. When the disk is full, deletes the emergency space of the previous process and tries once more. */
export async function withEmergencySpace<T>(dataDir: string, attempt: () => T | Promise<T>): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    if (!isDiskFull(error)) throw error
    await rm(join(dataDir, 'state', 'ballast'), { force: true })
    return await attempt()
  }
}
