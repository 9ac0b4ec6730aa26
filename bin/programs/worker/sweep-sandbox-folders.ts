/**
 * Deletes the sandbox folders of data directories that were deleted, and locks this worker's own folder against other
 * workers that do the same.
 *
 * The deletion runs beside the worker and may be cut off at any time: the record that finds a folder is deleted last.
 */
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Log } from '../../../core/ports/log.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { DataDirInUse } from '../../../store/errors.ts'
import { acquireLock, type LockOptions } from '../../../store/lock.ts'
import {
  type AbandonedLocation,
  findAbandonedLocations,
  OWNER_FILE,
} from '../../../worker/run/disk/sandbox-location.ts'
import { removeFolderTree } from '../../../worker/sandbox/folders.ts'

export interface SweepOptions {
  /** The sandbox folder of this worker, outside of its data directory. */
  readonly folder: string
  readonly lock: LockOptions
  /** Wall milliseconds, once they are known to be right. */
  readonly now: Promise<number>
  readonly log: Log
}

/** Throws DataDirInUse while another worker uses the folder. */
export async function sweepSandboxFolders({ folder, lock, now, log }: SweepOptions): Promise<void> {
  acquireLock(folder, lock)
  const found = await findAbandonedLocations(dirname(folder), await now)
  const others = found.filter((abandoned) => abandoned.folder !== folder)
  // A word that takes over is about the folder of this worker alone.
  await deleteAbandonedLocations(others, { ...lock, takeOver: undefined }, log)
}

/** Leaves a folder that another worker is deleting to that worker. */
export async function deleteAbandonedLocations(
  locations: readonly AbandonedLocation[],
  lock: LockOptions,
  log: Pick<Log, 'info' | 'warn'> = { info: () => {}, warn: () => {} },
): Promise<void> {
  for (const abandoned of locations) {
    try {
      acquireLock(abandoned.folder, lock)
      log.info({ ...abandoned }, 'deleting the sandboxes of a data directory that was deleted')
      for (const name of await readdir(abandoned.folder))
        if (name !== OWNER_FILE) await removeFolderTree(join(abandoned.folder, name))
      await removeFolderTree(abandoned.folder)
    } catch (error) {
      if (error instanceof DataDirInUse) continue
      log.warn(
        { ...abandoned, reason: messageOf(error) },
        'the sandboxes of a deleted data directory could not be deleted',
      )
    }
  }
}
