/** Reads one file of the ticket folder as a whole, and tells whether it has changed. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { no, type Refused } from '../../../core/result.ts'
import { TICKET_FILE_BYTES_MAX, TICKET_FILES_MAX, TICKET_PROBLEMS_MAX } from '../../../protocol/limits.ts'
import { codeOf, messageOf } from '../../../protocol/message-of.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { readTicket, type TicketReadResult } from './ticket-file.ts'

/** How often a file is read again while it keeps changing; then its text is taken as it is. */
const TICKET_READS_MAX = 3

const INSTANT_MAX = Date.UTC(9999, 11, 31)

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

export function parseFile(name: string, path: string, stats: ExactStats, bytes: Buffer): TicketReadResult {
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

// ---- problems ------------------------------------------------------------------------------------------------------

// Each names the folder or the file, and the cure. `ticket-file.ts` words the problems with the content of a file.

export function largeFileProblem(name: string): string {
  return `${printable(name)} has more than ${TICKET_FILE_BYTES_MAX} bytes; shorten it`
}

export function repeatedIdProblem(name: string, id: string, firstName: string): string {
  return `${printable(name)} has the id ${printable(id)}, as ${printable(firstName)} has; change one of them`
}

export function unprintableNameProblem(name: string): string {
  return `${printable(name)} has characters in its name that do not print; rename it`
}

export function unreadableFileProblem(name: string, error: unknown): string {
  const advice = codeOf(error) === 'EACCES' ? '; give switchyard the right to read it' : ''
  return `${printable(name)} cannot be read (${printable(messageOf(error))})${advice}`
}

/** Empty when all files are read. */
export function manyFilesProblems(fileCount: number): string[] {
  if (fileCount <= TICKET_FILES_MAX) return []
  return [
    `only the first ${TICKET_FILES_MAX} of ${fileCount} files are read; move closed tickets to another folder`,
  ]
}

/** Keeps the first `TICKET_PROBLEMS_MAX` problems, and counts the rest. */
export function limitProblems(problems: readonly string[]): readonly string[] {
  const more = problems.length - TICKET_PROBLEMS_MAX
  if (more <= 0) return problems
  return [...problems.slice(0, TICKET_PROBLEMS_MAX), `${more} more files have problems; fix these first`]
}

export function refuseUnreadableFolder(path: string, error: unknown): Refused {
  const code = codeOf(error)
  const shown = printable(path)
  const advice = 'or set tracker.path to the folder that holds the tickets'
  if (code === 'ENOENT')
    return no('invalid', `tracker.path: ${shown} does not exist; make that folder, ${advice}`)
  if (code === 'ENOTDIR')
    return no('invalid', `tracker.path: ${shown} is not a folder; make it one, ${advice}`)
  if (code === 'EACCES')
    return no('invalid', `tracker.path: ${shown} may not be read; give switchyard the right to, ${advice}`)
  return no('failed', `tracker.path: ${shown} cannot be read (${printable(messageOf(error))})`)
}
