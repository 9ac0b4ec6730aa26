/**
 * Reads an agent's own files from the host, after all processes in its sandbox have ended.
 *
 * The home folder is untrusted and the worker can read everything. So links are not followed anywhere in the path, only
 * regular files with a single hard link are opened, and the bytes per file and in total are limited, because sparse
 * files can have any size.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, opendir, readlink, realpath } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import { createLineReader } from '../../core/line-reader.ts'
import type { AgentFiles } from './agent.ts'

/** Entries of one folder. */
const NAMES_MAX = 10_000
/** Bytes of one file; a session of several days has some dozens of megabytes. */
const FILE_BYTES_MAX = 512 * 1024 * 1024
const ALL_BYTES_MAX = 1024 * 1024 * 1024
const CHUNK_BYTES = 256 * 1024

/** `isWanted` returns false once the caller no longer needs the rest; reading then stops. */
export function openAgentFiles(
  home: string,
  isWanted: () => boolean = () => true,
  readAt = Number.POSITIVE_INFINITY,
): AgentFiles {
  let left = ALL_BYTES_MAX
  const consume = (bytes: number): boolean => {
    left -= bytes
    return left >= 0 && isWanted()
  }
  return {
    readAt,
    async list(folder) {
      if (!isWanted()) return []
      const handle = await openWithoutLinks(home, folder, constants.O_DIRECTORY)
      if (handle === undefined) return []
      try {
        return (await listNames(`/proc/self/fd/${handle.fd}`)).sort()
      } finally {
        await handle.close()
      }
    },
    async *lines(path) {
      if (!isWanted()) return
      const handle = await openWithoutLinks(home, path, 0)
      if (handle === undefined) return
      try {
        if (await isPlainFile(handle)) yield* readLines(handle, consume)
      } finally {
        await handle.close()
      }
    },
  }
}

/** O_NONBLOCK, because opening a pipe without a writer would block forever. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Returns undefined when the path does not exist or leads through a link. */
async function openWithoutLinks(home: string, path: string, kind: number): Promise<FileHandle | undefined> {
  const top = await realpath(home).catch(() => undefined)
  if (top === undefined || normalize(path) !== path || /^\/|^\.\.?(\/|$)/.test(path)) return undefined
  const wanted = join(top, path)
  const handle = await open(wanted, FLAGS | kind).catch(() => undefined)
  if (handle === undefined) return undefined
  const real = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
  if (real === wanted) return handle
  await handle.close()
  return undefined
}

/** A second hard link could be a file outside the home folder. */
async function isPlainFile(handle: FileHandle): Promise<boolean> {
  const stats = await handle.stat()
  return stats.isFile() && stats.nlink === 1
}

/** Stops at the limit instead of reading all names into memory. */
async function listNames(folder: string): Promise<string[]> {
  const names: string[] = []
  const entries = await opendir(folder).catch(() => [])
  for await (const { name } of entries) {
    names.push(name)
    if (names.length >= NAMES_MAX) break
  }
  return names
}

async function* readLines(handle: FileHandle, consume: (bytes: number) => boolean): AsyncGenerator<string> {
  const lines = createLineReader()
  const buffer = Buffer.alloc(CHUNK_BYTES)
  for (let read = 0; read < FILE_BYTES_MAX; ) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, read)
    if (bytesRead === 0 || !consume(bytesRead)) break
    read += bytesRead
    yield* lines.push(buffer.subarray(0, bytesRead))
  }
  yield* lines.flush()
}
