/** Finds the folder that exists where a new one is to be made, and tells whether something may be made in it. */
import { accessSync, constants, existsSync } from 'node:fs'
import { dirname } from 'node:path'

/** Returns the path itself, or the nearest folder above it that exists. */
export function nearestExisting(path: string): string {
  return path === dirname(path) || existsSync(path) ? path : nearestExisting(dirname(path))
}

/** Returns the error of the system; undefined for a folder that this user may write. */
export function findWriteRefusal(folder: string): unknown {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    return error
  }
}
