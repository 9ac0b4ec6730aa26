/**
 * The chain of the trail of actions: each entry holds a hash over itself and over the hash of the entry before it, so an
 * entry that was changed, moved or taken out no longer fits those around it.
 *
 * The newest entries can be cut off without a break in the chain. Who has written down a hash, as `audit --verify` and
 * the host's log print it, sees that too.
 */
import { createHash } from 'node:crypto'
import type { AuditEntry } from '../../protocol/audit.ts'

/** Stands for the entry before the first one. */
export const NO_HASH = ''
const SEALED = /^(\{.*),"hash":"([0-9a-f]{64})"\}$/

/** A line without its end. @param previous the hash of the entry before it */
export function sealEntry(entry: Omit<AuditEntry, 'hash'>, previous: string): { line: string; hash: string } {
  const text = JSON.stringify(entry)
  const hash = hashOf(text, previous)
  return { line: `${text.slice(0, -1)},"hash":"${hash}"}`, hash }
}

export interface ReadLine {
  /** Undefined: nobody can read the line. */
  readonly entry: AuditEntry | undefined
  /** Whether the entry is the one that was written after `previous`. */
  readonly fits: boolean
  /** The hash for the entry after it; a line that nobody can read has one too. */
  readonly hash: string
}

export function readLine(line: string, previous: string): ReadLine {
  const [, text = '', hash = ''] = SEALED.exec(line) ?? []
  const entry = parseEntry(line)
  if (entry === undefined || hash === '')
    return { entry: undefined, fits: false, hash: hashOf(line, NO_HASH) }
  return { entry, fits: hashOf(`${text}}`, previous) === hash, hash }
}

const hashOf = (text: string, previous: string): string =>
  createHash('sha256').update(`${previous}\n${text}`).digest('hex')

function parseEntry(line: string): AuditEntry | undefined {
  try {
    const read: Partial<AuditEntry> | null = JSON.parse(line)
    if (read === null || !Number.isSafeInteger(read.n)) return undefined
    if (typeof read.at !== 'string' || typeof read.source !== 'string' || typeof read.action !== 'string')
      return undefined
    // The fields that must be there are; the chain tells whether the others are those that were written.
    return read as AuditEntry
  } catch {
    return undefined
  }
}
