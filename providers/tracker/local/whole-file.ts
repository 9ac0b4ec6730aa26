/** Reads one file of the ticket folder as a whole, and tells whether it has changed. */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { TICKET_FILE_BYTES_MAX, TICKET_READS_MAX } from '../../../protocol/limits.ts'
import { largeFileProblem } from './folder-problems.ts'
import { readTicket, type TicketReadResult } from './ticket-file.ts'

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
