/**
 * `freeBytes` returns the disk space that is free for runs, `diskBytes` the size of the whole disk.
 *
 * A file system that is nearly out of inodes counts as full: an agent can use them up with empty files. File systems
 * that do not count inodes report 0 of them.
 */
import { statfs } from 'node:fs/promises'

const FREE_FILES_MIN = 10_000

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return files > 0 && ffree < FREE_FILES_MIN ? 0 : bavail * bsize
}

/** undefined: the file system does not say, as some network file systems. */
export async function diskBytes(folder: string): Promise<number | undefined> {
  const { blocks, bsize } = await statfs(folder)
  return blocks > 0 ? blocks * bsize : undefined
}
