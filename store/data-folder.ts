/**
 * Prepares the data directory: creates it or checks that it is ours, restricts it to its owner, and keeps it usable
 * when the disk is full.
 */
import { chmod, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isDiskFull, NotADataDir } from './errors.ts'
import { makeFolder } from './files/atomic.ts'

/**
 * Creates the folder with mode 0700. Rejects with NotADataDir for a folder with other content; a name from
 * `knownNames` proves that the folder is a data directory.
 */
export async function makeOwnerOnly(folder: string, knownNames: readonly string[]): Promise<void> {
  await makeFolder(folder)
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
