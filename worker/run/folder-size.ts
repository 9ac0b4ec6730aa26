/**
 * `measureDiskUsage` returns how many bytes on disk and how many files a folder takes whose content an agent chose.
 *
 * Links are counted but not followed. Only blocks on disk count. An agent cannot hide files: unreadable folders are made
 * readable, names may be any bytes, and paths may be longer than the kernel's limit. The caller makes sure that no
 * process runs in the folder any more.
 */
import { constants } from 'node:fs'
import { chmod, lstat, open, opendir } from 'node:fs/promises'
import type { DiskSpace } from './free-disk.ts'

/** Counting stops after this many entries. */
const FILES_MAX = 500_000
/** Leaves enough room below the kernel's path limit for one more name. */
const PATH_BYTES_MAX = 2_048
const BLOCK_BYTES = 512
/** The owner may list the folder and enter it. */
const OWNER_READ_EXECUTE = 0o500
/** Node returns names as bytes, because a name need not be valid UTF-8. */
const RAW_NAMES = 'buffer' as BufferEncoding
const SLASH = Buffer.from('/')

export async function measureDiskUsage(folder: string): Promise<DiskSpace> {
  let bytes = 0
  let files = 0
  let entriesLeft = FILES_MAX
  const visit = async (path: Buffer): Promise<void> => {
    await makeReadable(path).catch(() => {})
    const entries = await opendir(path, { encoding: RAW_NAMES }).catch(() => undefined)
    if (entries === undefined) return
    for await (const entry of entries) {
      entriesLeft -= 1
      if (entriesLeft < 0) return
      files += 1
      // With encoding `buffer` the name is a Buffer, which Node's types do not say.
      const child = Buffer.concat([path, SLASH, entry.name as unknown as Buffer])
      bytes += await diskBytesOf(child)
      if (entry.isDirectory()) await (child.length < PATH_BYTES_MAX ? visit(child) : visitByDescriptor(child))
    }
  }
  /** Opens the folder and continues at its path below /proc/self/fd, which is short again. */
  const visitByDescriptor = async (path: Buffer): Promise<void> => {
    await makeReadable(path).catch(() => {})
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
    const handle = await open(path, flags).catch(() => undefined)
    if (handle === undefined) return
    try {
      await visit(Buffer.from(`/proc/self/fd/${handle.fd}`))
    } finally {
      await handle.close()
    }
  }
  await visit(Buffer.from(folder))
  return { bytes, files }
}

/** An agent that runs as the worker's own user could have removed the worker's access. */
async function makeReadable(folder: Buffer): Promise<void> {
  const { mode } = await lstat(folder)
  if ((mode & OWNER_READ_EXECUTE) !== OWNER_READ_EXECUTE) await chmod(folder, mode | OWNER_READ_EXECUTE)
}

function diskBytesOf(path: Buffer): Promise<number> {
  return lstat(path).then(
    ({ blocks }) => blocks * BLOCK_BYTES,
    () => 0,
  )
}
