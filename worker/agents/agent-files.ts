/**
 * An agent's own files, read from outside, when nothing runs in its sandbox any more.
 *
 * The agent could make of its home what it liked, and whoever reads here may read everything: so no link is followed
 * anywhere on the way, only plain files of one name are opened, and no more of them is read than a transcript has, nor
 * of all together than a session leaves: a file with nothing in it can be any size.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, opendir, readlink, realpath } from 'node:fs/promises'
import { join, normalize } from 'node:path'
import type { AgentFiles } from './agent.ts'
import { createLineReader } from './line-reader.ts'

/** Of one folder. */
const NAMES_MAX = 10_000
/** Of one file; a session of days has some dozens of megabytes. */
const FILE_BYTES_MAX = 512 * 1024 * 1024
const ALL_BYTES_MAX = 1024 * 1024 * 1024
const CHUNK_BYTES = 256 * 1024

/** `goesOn`: false once nobody waits for the rest. */
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

/** `NONBLOCK`: opening a pipe that nobody writes to would never come back. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** `undefined` for what isn't there, and for what is reached through a link. */
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

/** A second name could be that of a file elsewhere. */
async function isPlainFile(handle: FileHandle): Promise<boolean> {
  const stats = await handle.stat()
  return stats.isFile() && stats.nlink === 1
}

/** As many as there may be, and no more in memory either. */
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
