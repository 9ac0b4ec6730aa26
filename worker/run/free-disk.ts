/**
 * `freeSpace` returns the disk space that is free for runs, `diskBytes` the size of the whole disk.
 *
 * A file system that is nearly out of inodes counts as full: an agent can use them up with empty files. File systems
 * that do not count inodes report 0 of them.
 */
import { statfs } from 'node:fs/promises'

export interface DiskSpace {
  readonly bytes: number
  /** Inodes. Infinity: the file system does not count them. */
  readonly files: number
}

const FREE_FILES_MIN = 10_000
const MIB = 1024 * 1024

export async function freeSpace(folder: string): Promise<DiskSpace> {
  const { bavail, bsize, files, ffree } = await statfs(folder)
  return { bytes: bavail * bsize, files: files > 0 ? ffree : Number.POSITIVE_INFINITY }
}

/** Returns what a run lacks; undefined: the space suffices. */
export function describeShortage({ bytes, files }: DiskSpace, bytesMin: number): string | undefined {
  if (bytes < bytesMin) return `room for ${Math.floor(bytes / MIB)} MiB, a run needs ${bytesMin / MIB}`
  if (files < FREE_FILES_MIN) return `room for ${files} files, a run needs ${FREE_FILES_MIN}`
  return undefined
}

/** undefined: the file system does not say, as some network file systems. */
export async function diskBytes(folder: string): Promise<number | undefined> {
  const { blocks, bsize } = await statfs(folder)
  return blocks > 0 ? blocks * bsize : undefined
}
