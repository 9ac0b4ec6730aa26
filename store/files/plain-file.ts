/**
 * Reads plain files in folders whose content somebody else may have chosen: links, FIFOs and devices are not opened.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { codeOf } from '../errors.ts'

const CHUNK_BYTES = 64 * 1024
/** Opening a FIFO must not wait for a writer. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
/** Error codes of opening a link, socket or device. These codes concern the name; other errors concern the system. */
const NOT_PLAIN_CODES = new Set<unknown>(['ELOOP', 'EMLINK', 'ENXIO', 'ENODEV', 'ENOTDIR'])

/** Returns undefined when there is no file, and `odd` for something that the store would not create. */
export async function plainFile(path: string): Promise<Stats | 'odd' | undefined> {
  let handle: FileHandle
  try {
    handle = await open(path, READ)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (NOT_PLAIN_CODES.has(codeOf(error))) return 'odd'
    throw error
  }
  try {
    const stats = await handle.stat()
    if (stats.isDirectory()) return undefined
    return stats.isFile() && stats.nlink === 1 ? stats : 'odd'
  } finally {
    await handle.close()
  }
}

export async function isFile(path: string): Promise<boolean> {
  const stats = await plainFile(path)
  return stats !== undefined && stats !== 'odd'
}

export async function isSameContent(path: string, size: number, data: Uint8Array): Promise<boolean> {
  const stats = await plainFile(path)
  if (stats === undefined || stats === 'odd' || size !== data.length || stats.size !== size) return false
  return (await readFile(path)).equals(data)
}

/** Opens the file on the first read, so that an unused result holds no descriptor. */
export async function* bytesOf(path: string, expected: Stats): AsyncGenerator<Uint8Array> {
  const handle = await open(path, READ)
  try {
    const { dev, ino } = await handle.stat()
    if (dev !== expected.dev || ino !== expected.ino)
      throw new Error('the artifact was replaced meanwhile; ask again')
    for (let at = 0; at < expected.size; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, expected.size - at))
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, at)
      if (bytesRead === 0) throw new Error('the artifact became shorter while it was read')
      at += bytesRead
      yield chunk.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}
