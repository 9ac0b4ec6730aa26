/** `readSecretFile` reads a small secret file: it follows no link, does not block on a pipe, and limits the size. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isNativeError } from 'node:util/types'

const FILE_BYTES_MAX = 4_096

export interface SecretFile {
  readonly text: string
  readonly mode: number
}

/** Returns undefined if the file does not exist. `mode`: the file's mode is changed to this one if it differs. */
export async function readSecretFile(path: string, mode?: number): Promise<SecretFile | undefined> {
  let handle: FileHandle
  try {
    // Without O_NONBLOCK, opening a pipe would block forever.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (codeOf(error) === 'ELOOP') throw new Error('it is a link; name the file itself', { cause: error })
    throw error
  }
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error('it is no plain file')
    if (stats.size > FILE_BYTES_MAX) throw new Error(`it is longer than ${FILE_BYTES_MAX} bytes`)
    if (mode !== undefined && (stats.mode & 0o777) !== mode) await handle.chmod(mode)
    return { text: await handle.readFile('utf8'), mode: stats.mode }
  } finally {
    await handle.close()
  }
}

const codeOf = (error: unknown): unknown => (isNativeError(error) && 'code' in error ? error.code : undefined)
