/**
 * Reads the Markdown files of a folder, each again only when it may have changed.
 *
 * Only regular files named `*.md` are tickets. Folders, links, pipes, hidden files, editor backups and README files are
 * ignored silently.
 *
 * A file counts as unchanged while inode, size and both times are unchanged. Time stamps have a resolution: a second
 * write within it does not change them. So a file that is checked is read again while it is younger than
 * `FILE_SETTLED_MS`.
 *
 * Checking thousands of files takes long, so while the folder is watched, only the files that the watch has named are
 * checked, young ones too, and the folder is listed only when one of them came or went. A read for which nothing was
 * named, such as that of a poll, checks everything: some file systems report no changes.
 */
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../../core/ports/clock.ts'
import type { TrackedTicket } from '../../../core/ports/tracker.ts'
import { type Result, yes } from '../../../core/result.ts'
import { keepKnownTicket } from '../../../core/tickets/compare-listings.ts'
import { TICKET_FILES_MAX } from '../../../protocol/limits.ts'
import { codeOf } from '../../../protocol/message-of.ts'
import type { TicketReadResult } from './ticket-file.ts'
import {
  fingerprintOf,
  manyFilesProblems,
  parseFile,
  readWholeFile,
  refuseUnreadableFolder,
  repeatedIdProblem,
  unprintableNameProblem,
  unreadableFileProblem,
} from './whole-file.ts'

const TICKET_FILES_AT_ONCE = 32

/** Longer than the time resolution of any file system, including the two seconds of FAT. */
const FILE_SETTLED_MS = 3_000
const TICKET_FILE_NAME = /^[^.#].*(?<!~)\.md$/is
/** Control characters, and the replacement character for bytes that are not UTF-8. */
const UNPRINTABLE = /[\p{Cc}\ufffd]/u
const README = /^readme\.md$/i
/** The file vanished or changed its type after the folder was listed, so it is skipped. */
const VANISHED_CODES = new Set<unknown>(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'])

export interface TicketFolderContents extends FolderTickets {
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
  readonly #believedMsMax: number
  /** By name, in the order of the names. */
  #known: Map<string, KnownTicketFile> = new Map()
  #tickets: FolderTickets = { tickets: [], problems: [] }
  #countProblems: readonly string[] = []
  #lastRead: Promise<unknown> = Promise.resolve()
  #isWatched = false
  /** The files that the watch has named since the last read; undefined when any file may have changed. */
  #named: Set<string> | undefined
  /** The watch has named a file since the last read that does not believe it anyway. */
  #isAnnounced = false
  /** Monotonic instant of the last read that checked all files. */
  #checkedAt = Number.NEGATIVE_INFINITY

  /** @param believedMsMax how long a watch is believed: it may miss a change */
  constructor(path: string, clock: Clock, believedMsMax: number) {
    this.#path = path
    this.#clock = clock
    this.#believedMsMax = believedMsMax
  }

  /** Whether each change of a file is announced by `onChange` from now on. */
  setWatched(isWatched: boolean): void {
    this.#isWatched = isWatched
    this.#named = undefined
  }

  /** The watch reports a change of this file, or of any. */
  onChange(name: string | undefined): void {
    if (name === undefined) this.#named = undefined
    else this.#named?.add(name)
    this.#isAnnounced = true
  }

  /** @param believesWatch checks the named files only, even when there are none */
  readAll(believesWatch = false): Promise<Result<TicketFolderContents>> {
    // Reads follow each other, because each takes over what the one before it has found.
    const read = this.#lastRead.then(() => this.#readAll(believesWatch))
    this.#lastRead = read.catch(() => undefined)
    return read
  }

  async #readAll(believesWatch: boolean): Promise<Result<TicketFolderContents>> {
    const suspects = this.#suspectFiles(believesWatch)
    const changed = suspects === undefined ? undefined : await this.#readSuspects(suspects)
    if (changed === undefined) return this.#readFolder(suspects)
    const replaced = replaceTickets(this.#tickets, this.#known, changed)
    for (const [name, file] of changed) this.#known.set(name, file)
    this.#tickets = replaced ?? collectTickets(this.#known)
    return yes(this.#contents(changed.size))
  }

  /** Checks the named files; undefined when a file came or went. */
  async #readSuspects(named: ReadonlySet<string>): Promise<ReadonlyMap<string, KnownTicketFile> | undefined> {
    const before = this.#known
    const names = [...named].filter(isTicketFileName)
    if (!names.every((name) => before.has(name))) return undefined
    const files = await mapConcurrently(
      names,
      async (name) => [name, await this.#readIfChanged(name, before.get(name))] as const,
    )
    const changed = new Map<string, KnownTicketFile>()
    for (const [name, file] of files) {
      if (file === undefined) return undefined
      if (file !== before.get(name)) changed.set(name, file)
    }
    return changed
  }

  /** @param suspects the files to check; undefined for all of them */
  async #readFolder(suspects: ReadonlySet<string> | undefined): Promise<Result<TicketFolderContents>> {
    const listed = await this.#listNames()
    if (!listed.ok) {
      this.#named = undefined
      return listed
    }
    const names = listed.value.slice(0, TICKET_FILES_MAX)
    const before = this.#known
    const files = await mapConcurrently(names, async (name) => {
      const known = before.get(name)
      const isBelieved = known !== undefined && suspects?.has(name) === false
      return [name, isBelieved ? known : await this.#readIfChanged(name, known)] as const
    })
    this.#known = new Map(
      files.flatMap(([name, file]) => (file === undefined ? [] : [[name, file] as const])),
    )
    this.#tickets = collectTickets(this.#known)
    this.#countProblems = manyFilesProblems(listed.value.length)
    return yes(this.#contents([...this.#known].filter(([name, file]) => before.get(name) !== file).length))
  }

  #contents(readCount: number): TicketFolderContents {
    const { tickets, problems } = this.#tickets
    return { tickets, problems: [...this.#countProblems, ...problems], readCount }
  }

  /** The files to check; undefined for all of them. */
  #suspectFiles(believesWatch: boolean): ReadonlySet<string> | undefined {
    const named = this.#named
    const now = this.#clock.monotonic()
    // Changes from now on are those of the next read.
    this.#named = this.#isWatched ? new Set() : undefined
    const isBelieved = believesWatch || this.#isAnnounced
    if (!believesWatch) this.#isAnnounced = false
    if (isBelieved && named !== undefined && now - this.#checkedAt < this.#believedMsMax) return named
    this.#checkedAt = now
    return undefined
  }

  async #listNames(): Promise<Result<string[]>> {
    try {
      const entries = await readdir(this.#path, { withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
      return yes(files.filter(isTicketFileName).sort())
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
      return await this.#readFile(name, path, known?.result)
    } catch (error) {
      if (VANISHED_CODES.has(codeOf(error))) return undefined
      return {
        fingerprint: '',
        isSettled: false,
        result: { ok: false, problem: unreadableFileProblem(name, error) },
      }
    }
  }

  async #readFile(
    name: string,
    path: string,
    known: TicketReadResult | undefined,
  ): Promise<KnownTicketFile | undefined> {
    const file = await readWholeFile(path)
    if (file === undefined) return undefined
    const { stats, bytes } = file
    const isSettled = this.#clock.now() - Number(stats.ctimeMs) > FILE_SETTLED_MS
    const result = parseFile(name, path, stats, bytes)
    const tracked =
      known?.ok === true && result.ok ? keepKnownTicket(known.tracked, result.tracked) : undefined
    return {
      fingerprint: fingerprintOf(stats),
      isSettled,
      result: tracked === undefined ? result : { ok: true, tracked },
    }
  }
}

const isTicketFileName = (name: string): boolean => TICKET_FILE_NAME.test(name) && !README.test(name)

// ---- all files ------------------------------------------------------------------------------------------------------

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

interface FolderTickets {
  readonly tickets: readonly FileTicket[]
  readonly problems: readonly string[]
}

interface FileTicket {
  readonly name: string
  readonly tracked: TrackedTicket
}

interface ReadFile {
  readonly result: TicketReadResult
}

/**
 * FolderTickets are the tickets of a folder's files, sorted by file name. Of several files with one id the first counts,
 * and the others are problems.
 *
 * @param files by name, in the order of the names
 */
function collectTickets(files: ReadonlyMap<string, ReadFile>): FolderTickets {
  const tickets: FileTicket[] = []
  const problems: string[] = []
  const nameOf = new Map<string, string>()
  for (const [name, { result }] of files) {
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

/** Replaces the tickets of changed files. Returns undefined when a file gained or lost a ticket or a problem. */
function replaceTickets(
  contents: FolderTickets,
  before: ReadonlyMap<string, ReadFile>,
  changed: ReadonlyMap<string, ReadFile>,
): FolderTickets | undefined {
  const tickets = [...contents.tickets]
  for (const [name, { result }] of changed) {
    const known = before.get(name)?.result
    if (known === undefined || !hasSameSubject(known, result)) return undefined
    const at = indexOfName(name, tickets)
    // The ticket of a file whose id an earlier file has is not among them.
    if (result.ok && tickets[at]?.name === name) tickets[at] = { name, tracked: result.tracked }
  }
  return { ...contents, tickets }
}

const hasSameSubject = (a: TicketReadResult, b: TicketReadResult): boolean =>
  a.ok && b.ok ? a.tracked.ticket.id === b.tracked.ticket.id : !a.ok && !b.ok && a.problem === b.problem

/** Returns the index of the first ticket whose file name is not before this one. */
function indexOfName(name: string, tickets: readonly FileTicket[]): number {
  let from = 0
  let until = tickets.length
  while (from < until) {
    const middle = (from + until) >> 1
    if ((tickets[middle]?.name ?? '') < name) from = middle + 1
    else until = middle
  }
  return from
}
