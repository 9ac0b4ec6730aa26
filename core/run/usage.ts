/**
 * What of a usage snapshot is archived, and under which name.
 *
 * The parts of the name are checked again here, although a frame's schema has done so: they become a path. The hash,
 * when there is one, is the SHA-256 of `usageText(entries)`, the compact JSON of the entries as the worker has them,
 * before anything is dropped. An entry that comes twice is one entry, and the later word counts. Only the declared
 * fields are written, so no word of a prompt can ride along.
 */
import { createHash } from 'node:crypto'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { WORKER_MAX_USAGE_SNAPSHOT_BYTES } from '../../protocol/limits.ts'
import { type UsageEntry, usageText } from '../../protocol/usage.ts'
import type { UsageKey } from '../ports.ts'
import { no, type Result, yes } from '../result.ts'

/** Stricter than the schema in one thing: some file systems take `.JSON` for `.json`. */
const PATH_PART = /^(?!.*\.json$)[A-Z0-9_-][A-Z0-9._-]{0,199}$/i

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

/** What a worker says of the entries it sends, and the host finds out for itself. */
export function usageHash(entries: readonly UsageEntry[]): string {
  return createHash('sha256').update(usageText(entries)).digest('hex')
}

/** In the order in which they first came. */
function distinctEntries(entries: readonly UsageEntry[]): UsageEntry[] {
  return [...new Map(entries.map((entry) => [entry.id, entry])).values()]
}

/** The entries have a text of their own already; it goes in as the last field. */
function archiveText(key: UsageKey, entries: readonly UsageEntry[]): string {
  return `${JSON.stringify(key).slice(0, -1)},"entries":${usageText(entries)}}`
}
