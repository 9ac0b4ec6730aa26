/**
 * `freeBytes` returns the disk space that is free for runs.
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
