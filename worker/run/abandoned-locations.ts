/**
 * Finds the sandbox folders outside of data directories whose data directory was deleted.
 *
 * A folder counts only when its record proves the deletion: the data directory is missing, and the nearest folder above it
 * that exists lies on the file system that held it. An unmounted or unreadable disk proves nothing. A record of an earlier
 * version names no file system; then the folder right above must exist and not be empty, as a mount point would be.
 */
import { lstat, readdir, readFile, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { isNativeError } from 'node:util/types'
import { folderNameFor, RECORD_FILE } from './sandbox-location.ts'

export interface AbandonedLocation {
  readonly folder: string
  readonly dataDir: string
}

/** A person may move a data directory away and back within this time. */
export const ABANDONED_AFTER_MS = 24 * 60 * 60_000
const FOLDER_NAME = /^[0-9a-f]{16}$/

/** @param parent the folder that holds one sandbox folder for each data directory */
export async function findAbandonedLocations(parent: string, now: number): Promise<AbandonedLocation[]> {
  const names = await readdir(parent).catch(() => [])
  const found = await Promise.all(
    names.filter((name) => FOLDER_NAME.test(name)).map((name) => judge(join(parent, name), name, now)),
  )
  return found.flatMap((location) => location ?? [])
}

async function judge(folder: string, name: string, now: number): Promise<AbandonedLocation | undefined> {
  try {
    const record = join(folder, RECORD_FILE)
    const [dataDir = '', device] = (await readFile(record, 'utf8')).split('\n')
    const { mtimeMs } = await stat(record)
    if (!isAbsolute(dataDir) || folderNameFor(dataDir) !== name) return undefined
    if (now - mtimeMs < ABANDONED_AFTER_MS) return undefined
    return (await isDeleted(dataDir, device)) ? { folder, dataDir } : undefined
  } catch {
    // A record that can't be read proves nothing.
    return undefined
  }
}

async function isDeleted(dataDir: string, device: string | undefined): Promise<boolean> {
  if (!(await isMissing(dataDir))) return false
  const parent = dirname(dataDir)
  const above = await findExisting(parent)
  const { dev } = await stat(above)
  if (device !== undefined && device !== '') return device === String(dev)
  return above === parent && (await readdir(parent)).length > 0
}

/** Throws on any error that does not prove that nothing is there. */
async function isMissing(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return false
  } catch (error) {
    if (isNativeError(error) && 'code' in error && error.code === 'ENOENT') return true
    throw error
  }
}

async function findExisting(path: string): Promise<string> {
  return (await isMissing(path)) ? findExisting(dirname(path)) : path
}
