/**
 * Selects what is archived of a usage snapshot, and its file name.
 *
 * The parts of the name become a path, so they are checked again here after the frame's schema. The hash, when there
 * is one, is the SHA-256 of `usageText(entries)`, the compact JSON of the worker's entries before any are dropped. The
 * later of two entries with the same id counts. Only declared fields are written, so no prompt text is archived.
 */
import { createHash } from 'node:crypto'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { WORKER_MAX_USAGE_SNAPSHOT_BYTES } from '../../protocol/limits.ts'
import { type UsageEntry, usageText } from '../../protocol/usage.ts'
import type { UsageKey } from '../ports.ts'
import { no, type Result, yes } from '../result.ts'

/** Stricter than the schema: some file systems treat `.JSON` like `.json`. */
const PATH_PART = /^(?!.*\.json$)[A-Z0-9_-][A-Z0-9._-]{0,199}$/i

export const USAGE_NOT_KEPT = 'a usage snapshot was not kept'

export function usageToArchive(snapshot: UsageSnapshot): Result<{ key: UsageKey; text: string }> {
  const { projectKey, sessionId, subagentId, entries, sha256 } = snapshot
  const key = { projectKey, sessionId, ...(subagentId === undefined ? {} : { subagentId }) }
  const unsafe = Object.entries(key).find(([, part]) => !PATH_PART.test(part))
  if (unsafe !== undefined) return no('invalid', `/snapshot/${unsafe[0]}: is not safe as the name of a file`)
  if (sha256 !== undefined && sha256 !== usageHash(entries)) {
    return no('invalid', '/snapshot/sha256: is not the SHA-256 of the compact JSON of the entries')
  }
  const text = archiveText(key, distinctEntries(entries))
  const bytes = Buffer.byteLength(text)
  if (bytes <= WORKER_MAX_USAGE_SNAPSHOT_BYTES) return yes({ key, text })
  return no('invalid', `/snapshot: is ${bytes} bytes, more than ${WORKER_MAX_USAGE_SNAPSHOT_BYTES}`)
}

/** The hash that a worker sends with its entries, and that the host computes again. */
export function usageHash(entries: readonly UsageEntry[]): string {
  return createHash('sha256').update(usageText(entries)).digest('hex')
}

/** Keeps the order of first occurrence. */
function distinctEntries(entries: readonly UsageEntry[]): UsageEntry[] {
  return [...new Map(entries.map((entry) => [entry.id, entry])).values()]
}

/** The entries have their own text form, which becomes the last field. */
function archiveText(key: UsageKey, entries: readonly UsageEntry[]): string {
  return `${JSON.stringify(key).slice(0, -1)},"entries":${usageText(entries)}}`
}
