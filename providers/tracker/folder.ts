/**
 * A folder's Markdown files, each read again only when it may have changed.
 *
 * Read are plain files whose name ends in `.md`. Everything else is passed over without a word: folders, links and
 * pipes, hidden files, what editors leave lying about, and a README, which is about the tickets and is none.
 *
 * A file is the same as long as inode, size and both of its times are. Times have a grain: of two writes in one grain
 * the second changes nothing about them, so a file that is younger than `SETTLED_MS` is read again however it looks.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock, TrackedTicket } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import {
  TICKET_FILE_BYTES_MAX,
  TICKET_FILES_AT_ONCE,
  TICKET_FILES_MAX,
  TICKET_READS_MAX,
} from '../../protocol/limits.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { codeOf, textOf } from './errors.ts'
import { readTicket, type TicketRead } from './ticket-file.ts'

/** Longer than the grain of any file system's times, FAT's two seconds included. */
const SETTLED_MS = 3_000
const INSTANT_MAX = Date.UTC(9999, 11, 31)
const TICKET_NAME = /^[^.#].*(?<!~)\.md$/is
/** Control characters, and what stands for bytes that are not UTF-8. */
const UNPRINTABLE = /[\p{Cc}\ufffd]/u
const README = /^readme\.md$/i
/** Passed over: it went away, or became something else, since the folder was listed. */
const VANISHED = new Set<unknown>(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'])

export interface FolderPicture {
  /** In order of their names; no two with the same id. */
  readonly tickets: readonly { readonly name: string; readonly tracked: TrackedTicket }[]
  readonly problems: readonly string[]
  /** How many files had to be read. */
  readonly read: number
}

interface Known {
  readonly print: string
  /** Old enough that a later change shows in the print. */
  readonly settled: boolean
  readonly outcome: TicketRead
}

export class TicketFolder {
  readonly #path: string
  readonly #clock: Clock
  #known: ReadonlyMap<string, Known> = new Map()

  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#clock = clock
  }

  async look(): Promise<Result<FolderPicture>> {
    const listed = await this.#names()
    if (!listed.ok) return listed
    const names = listed.value.slice(0, TICKET_FILES_MAX)
    const before = this.#known
    const looked = await each(
      names,
      async (name) => [name, await this.#file(name, before.get(name))] as const,
    )
    const known = new Map(looked.flatMap(([name, one]) => (one === undefined ? [] : [[name, one] as const])))
    this.#known = known
    const { tickets, problems } = pictureOf(known)
    const read = [...known].filter(([name, one]) => before.get(name) !== one).length
    return yes({ tickets, problems: [...tooMany(listed.value), ...problems], read })
  }

  async #names(): Promise<Result<string[]>> {
    try {
      const entries = await readdir(this.#path, { withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
      return yes(files.filter((name) => TICKET_NAME.test(name) && !README.test(name)).sort())
    } catch (error) {
      return unlisted(this.#path, error)
    }
  }

  /** undefined: there is no such file any more. */
  async #file(name: string, known: Known | undefined): Promise<Known | undefined> {
    if (UNPRINTABLE.test(name)) return { print: '', settled: false, outcome: unnamable(name) }
    const path = join(this.#path, name)
    try {
      if (known?.settled === true && known.print === printOf(await lstat(path, { bigint: true })))
        return known
      return await this.#read(name, path)
    } catch (error) {
      if (VANISHED.has(codeOf(error))) return undefined
      return { print: '', settled: false, outcome: unreadable(name, error) }
    }
  }

  async #read(name: string, path: string): Promise<Known | undefined> {
    const file = await readWhole(path)
    if (file === undefined) return undefined
    const { stats, bytes } = file
    const settled = this.#clock.now() - Number(stats.ctimeMs) > SETTLED_MS
    return { print: printOf(stats), settled, outcome: outcomeOf(name, path, stats, bytes) }
  }
}

// ---- one file ----------------------------------------------------------------------------------------------------

type ExactStats = Awaited<ReturnType<typeof exactStats>>

const exactStats = (handle: FileHandle) => handle.stat({ bigint: true })

export interface WholeFile {
  readonly bytes: Buffer
  readonly stats: ExactStats
}

/**
 * All of it, or one byte more than is allowed; undefined when it is no plain file. Whoever writes to it meanwhile is
 * given a moment: what was read is then read again.
 */
export async function readWhole(path: string): Promise<WholeFile | undefined> {
  // A pipe would keep us waiting for a writer, a link could lead anywhere.
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    let before = await exactStats(handle)
    if (!before.isFile()) return undefined
    for (let reads = 1; ; reads++) {
      const bytes = await readCapped(handle, before.size)
      const stats = await exactStats(handle)
      if (printOf(before) === printOf(stats) || reads === TICKET_READS_MAX) return { bytes, stats }
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

export function printOf({ dev, ino, size, mtimeNs, ctimeNs }: ExactStats): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
}

function outcomeOf(name: string, path: string, stats: ExactStats, bytes: Buffer): TicketRead {
  if (bytes.length > TICKET_FILE_BYTES_MAX) {
    return {
      ok: false,
      problem: `${printable(name)} has more than ${TICKET_FILE_BYTES_MAX} bytes; shorten it`,
    }
  }
  return readTicket(bytes, factsOf(name, path, stats))
}

export function factsOf(name: string, path: string, { birthtimeNs, mtimeNs }: ExactStats) {
  // Some file systems keep no birth time, and a copied file may be older than its copy.
  const born = birthtimeNs > 0n && birthtimeNs < mtimeNs ? birthtimeNs : mtimeNs
  const url = pathToFileURL(path).href
  return { name, url, createdAt: instantOf(born), updatedAt: instantOf(mtimeNs) }
}

function instantOf(ns: bigint): string {
  return new Date(Math.min(Math.max(Number(ns / 1_000_000n), 0), INSTANT_MAX)).toISOString()
}

// ---- all of them -------------------------------------------------------------------------------------------------

function pictureOf(known: ReadonlyMap<string, Known>) {
  const tickets: { name: string; tracked: TrackedTicket }[] = []
  const problems: string[] = []
  const nameOf = new Map<string, string>()
  for (const [name, { outcome }] of known) {
    if (!outcome.ok) {
      problems.push(outcome.problem)
      continue
    }
    const { id } = outcome.tracked.ticket
    const first = nameOf.get(id)
    if (first === undefined) {
      nameOf.set(id, name)
      tickets.push({ name, tracked: outcome.tracked })
    } else
      problems.push(
        `${printable(name)} has the id ${printable(id)}, as ${printable(first)} has; change one of them`,
      )
  }
  return { tickets, problems }
}

function tooMany(names: readonly string[]): string[] {
  if (names.length <= TICKET_FILES_MAX) return []
  return [
    `only the first ${TICKET_FILES_MAX} of ${names.length} files are read; move closed tickets to another folder`,
  ]
}

/** So many at once and no more, in the order given. */
async function each<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length)
  const rest = items.entries()
  const hand = async () => {
    for (const [index, item] of rest) results[index] = await work(item)
  }
  await Promise.all(Array.from({ length: TICKET_FILES_AT_ONCE }, hand))
  return results
}

function unnamable(name: string): TicketRead {
  return { ok: false, problem: `${printable(name)} has characters in its name that do not print; rename it` }
}

function unreadable(name: string, error: unknown): TicketRead {
  const cure = codeOf(error) === 'EACCES' ? '; give switchyard the right to read it' : ''
  return { ok: false, problem: `${printable(name)} cannot be read (${printable(textOf(error))})${cure}` }
}

function unlisted(path: string, error: unknown) {
  const code = codeOf(error)
  const shown = printable(path)
  const cure = 'or set tracker.path to the folder that holds the tickets'
  if (code === 'ENOENT')
    return no('invalid', `tracker.path: ${shown} does not exist; make that folder, ${cure}`)
  if (code === 'ENOTDIR') return no('invalid', `tracker.path: ${shown} is not a folder; make it one, ${cure}`)
  if (code === 'EACCES')
    return no('invalid', `tracker.path: ${shown} may not be read; give switchyard the right to, ${cure}`)
  return no('failed', `tracker.path: ${shown} cannot be read (${printable(textOf(error))})`)
}
