/**
 * How much disk a folder takes that an agent has filled as it liked.
 *
 * In blocks; links are counted, never followed. Nothing in it hides: neither what lies in a folder that was closed, nor
 * under a name that is no text, nor deeper than a path can be long. Only when nothing runs in it any more.
 */
import { constants } from 'node:fs'
import { chmod, lstat, open, opendir } from 'node:fs/promises'

/** A folder with more of them counts as that far. */
const FILES_MAX = 500_000
/** Far enough from the longest path that the kernel takes for one more name. */
const PATH_BYTES_MAX = 2_048
const BLOCK_BYTES = 512
/** Reads names, and what they stand for. */
const OWNER_READ_EXECUTE = 0o500
/** Names that are no text come as they are. */
const RAW_NAMES = 'buffer' as BufferEncoding
const SLASH = Buffer.from('/')

export async function measureDiskUsage(folder: string): Promise<number> {
  let bytes = 0
  let entriesLeft = FILES_MAX
  const visit = async (path: Buffer): Promise<void> => {
    await makeReadable(path).catch(() => {})
    const entries = await opendir(path, { encoding: RAW_NAMES }).catch(() => undefined)
    if (entries === undefined) return
    for await (const entry of entries) {
      entriesLeft -= 1
      if (entriesLeft < 0) return
      // As it was asked for, which the types don't know.
      const child = Buffer.concat([path, SLASH, entry.name as unknown as Buffer])
      bytes += await diskBytesOf(child)
      if (entry.isDirectory()) await (child.length < PATH_BYTES_MAX ? visit(child) : visitByDescriptor(child))
    }
  }
  /** By its descriptor, which has a short name again. */
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
  return bytes
}

/** An agent that is the same user as its worker could keep the worker out. */
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
