/**
 * Reads the Markdown files of a folder, each again only when it may have changed.
 *
 * Only regular files named `*.md` are tickets. Folders, links, pipes, hidden files, editor backups and README files are
 * ignored silently.
 *
 * A file counts as unchanged while inode, size and both times are unchanged. Time stamps have a resolution: a second
 * write within it does not change them. So a file younger than `FILE_SETTLED_MS` is always read again.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock, TrackedTicket } from '../../../core/ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import {
  TICKET_FILE_BYTES_MAX,
  TICKET_FILES_AT_ONCE,
  TICKET_FILES_MAX,
  TICKET_READS_MAX,
} from '../../../protocol/limits.ts'
import { errorCode } from './errors.ts'
import {
  largeFileProblem,
  manyFilesProblems,
  refuseUnreadableFolder,
  repeatedIdProblem,
  unprintableNameProblem,
  unreadableFileProblem,
} from './folder-problems.ts'
import { readTicket, type TicketReadResult } from './ticket-file.ts'

/** Longer than the time resolution of any file system, including the two seconds of FAT. */
const FILE_SETTLED_MS = 3_000
const INSTANT_MAX = Date.UTC(9999, 11, 31)
const TICKET_FILE_NAME = /^[^.#].*(?<!~)\.md$/is
/** Control characters, and the replacement character for bytes that are not UTF-8. */
const UNPRINTABLE = /[\p{Cc}\ufffd]/u
const README = /^readme\.md$/i
/** The file vanished or changed its type after the folder was listed, so it is skipped. */
const VANISHED_CODES = new Set<unknown>(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'])

export interface TicketFolderContents {
  /** Sorted by file name; ids are unique. */
  readonly tickets: readonly { readonly name: string; readonly tracked: TrackedTicket }[]
  readonly problems: readonly string[]
  /** Number of files that were read again. */
  readonly readCount: number
}

interface KnownTicketFile {
  readonly fingerprint: string
  /** Old enough that any later change alters the fingerprint. */
  readonly isSettled: boolean
  readonly result: TicketReadResult
}

export class TicketFolder {
  readonly #path: string
  readonly #clock: Clock
  #known: ReadonlyMap<string, KnownTicketFile> = new Map()

  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#clock = clock
  }

  async readAll(): Promise<Result<TicketFolderContents>> {
    const listed = await this.#listNames()
    if (!listed.ok) return listed
    const names = listed.value.slice(0, TICKET_FILES_MAX)
    const before = this.#known
    const files = await mapConcurrently(
      names,
      async (name) => [name, await this.#readIfChanged(name, before.get(name))] as const,
    )
    const known = new Map(
      files.flatMap(([name, file]) => (file === undefined ? [] : [[name, file] as const])),
    )
    this.#known = known
    const { tickets, problems } = collectTickets(known)
    const read = [...known].filter(([name, file]) => before.get(name) !== file).length
    return yes({
      tickets,
      problems: [...manyFilesProblems(listed.value.length), ...problems],
      readCount: read,
    })
  }

  async #listNames(): Promise<Result<string[]>> {
    try {
      const entries = await readdir(this.#path, { withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
      return yes(files.filter((name) => TICKET_FILE_NAME.test(name) && !README.test(name)).sort())
    } catch (error) {
      return refuseUnreadableFolder(this.#path, error)
    }
  }

  /** Undefined when the file no longer exists. */
  async #readIfChanged(
    name: string,
    known: KnownTicketFile | undefined,
  ): Promise<KnownTicketFile | undefined> {
    if (UNPRINTABLE.test(name))
      return {
        fingerprint: '',
        isSettled: false,
        result: { ok: false, problem: unprintableNameProblem(name) },
      }
    const path = join(this.#path, name)
    try {
      if (
        known?.isSettled === true &&
        known.fingerprint === fingerprintOf(await lstat(path, { bigint: true }))
      )
        return known
      return await this.#readFile(name, path)
    } catch (error) {
      if (VANISHED_CODES.has(errorCode(error))) return undefined
      return {
        fingerprint: '',
        isSettled: false,
        result: { ok: false, problem: unreadableFileProblem(name, error) },
      }
    }
  }

  async #readFile(name: string, path: string): Promise<KnownTicketFile | undefined> {
    const file = await readWholeFile(path)
    if (file === undefined) return undefined
    const { stats, bytes } = file
    const isSettled = this.#clock.now() - Number(stats.ctimeMs) > FILE_SETTLED_MS
    return {
      fingerprint: fingerprintOf(stats),
      isSettled,
      result: parseFile(name, path, stats, bytes),
    }
  }
}

// ---- one file -------------------------------------------------------------------------------------------------------

type ExactStats = Awaited<ReturnType<typeof readExactStats>>

const readExactStats = (handle: FileHandle) => handle.stat({ bigint: true })

export interface WholeFile {
  readonly bytes: Buffer
  readonly stats: ExactStats
}

/**
 * Reads a file, up to one byte beyond the limit; undefined when it is not a regular file. If the file changes
 * meanwhile, it is read again.
 */
export async function readWholeFile(path: string): Promise<WholeFile | undefined> {
  // Do not wait for the writer of a pipe, and do not follow a link.
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    let before = await readExactStats(handle)
    if (!before.isFile()) return undefined
    for (let reads = 1; ; reads++) {
      const bytes = await readCapped(handle, before.size)
      const stats = await readExactStats(handle)
      if (fingerprintOf(before) === fingerprintOf(stats) || reads === TICKET_READS_MAX)
        return { bytes, stats }
      before = stats
    }
  } finally {
    await handle.close()
  }
}

async function readCapped(handle: FileHandle, size: bigint): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(Math.min(Number(size), TICKET_FILE_BYTES_MAX) + 1)
  let filled = 0
  while (filled < bytes.length) {
    const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}

export function fingerprintOf({ dev, ino, size, mtimeNs, ctimeNs }: ExactStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
}

function parseFile(name: string, path: string, stats: ExactStats, bytes: Buffer): TicketReadResult {
  if (bytes.length > TICKET_FILE_BYTES_MAX) {
    return { ok: false, problem: largeFileProblem(name) }
  }
  return readTicket(bytes, toFileFacts(name, path, stats))
}

export function toFileFacts(name: string, path: string, { birthtimeNs, mtimeNs }: ExactStats) {
  // Some file systems store no birth time, and a copied file may be older than its copy.
  const birthNs = birthtimeNs > 0n && birthtimeNs < mtimeNs ? birthtimeNs : mtimeNs
  const url = pathToFileURL(path).href
  return { name, url, createdAt: instantFromNs(birthNs), updatedAt: instantFromNs(mtimeNs) }
}

function instantFromNs(ns: bigint): string {
  return new Date(Math.min(Math.max(Number(ns / 1_000_000n), 0), INSTANT_MAX)).toISOString()
}

// ---- all files ------------------------------------------------------------------------------------------------------

function collectTickets(known: ReadonlyMap<string, KnownTicketFile>) {
  const tickets: { name: string; tracked: TrackedTicket }[] = []
  const problems: string[] = []
  const nameOf = new Map<string, string>()
  for (const [name, { result }] of known) {
    if (!result.ok) {
      problems.push(result.problem)
      continue
    }
    const { id } = result.tracked.ticket
    const first = nameOf.get(id)
    if (first === undefined) {
      nameOf.set(id, name)
      tickets.push({ name, tracked: result.tracked })
    } else problems.push(repeatedIdProblem(name, id, first))
  }
  return { tickets, problems }
}

/** Runs at most `TICKET_FILES_AT_ONCE` at a time; results keep the order of the items. */
async function mapConcurrently<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length)
  const rest = items.entries()
  const worker = async () => {
    for (const [index, item] of rest) results[index] = await work(item)
  }
  await Promise.all(Array.from({ length: TICKET_FILES_AT_ONCE }, worker))
  return results
}
