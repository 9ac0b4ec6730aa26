/**
 * The folder that everything is kept in: made, or found to be ours, closed to everybody else, and usable even when the
 * disk is full.
 */
import { chmod, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isDiskFull, NotADataDir } from './errors.ts'
import { makeFolder } from './files/atomic.ts'

/** Rejects with NotADataDir for a folder that holds other things: one of `marks` tells that it is ours. */
export async function makeOwnerOnly(folder: string, knownNames: readonly string[]): Promise<void> {
  await makeFolder(folder)
  const { mode } = await stat(folder)
  if ((mode & 0o077) === 0) return
  // A home or a shared folder, named by mistake, must not be closed to those who use it.
  const names = await readdir(folder)
  if (names.length > 0 && !knownNames.some((mark) => names.includes(mark))) {
    throw new NotADataDir(
      `${folder} holds other things and is open to others, so it is left alone; name an empty or new folder as --data-dir`,
    )
  }
  await chmod(folder, 0o700)
}

/** On a full disk the ballast of the last life goes overboard, and what met the full disk is tried once more. */
export async function withEmergencySpace<T>(dataDir: string, attempt: () => T | Promise<T>): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    if (!isDiskFull(error)) throw error
    await rm(join(dataDir, 'state', 'ballast'), { force: true })
    return await attempt()
  }
}
