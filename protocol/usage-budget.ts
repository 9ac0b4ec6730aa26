/**
 * A usage snapshot that is too long for a frame, made to fit: written out if possible, packed if not.
 *
 * When even that is too long, the oldest entries are merged, model by model. What is lost then is when exactly and in
 * which order; no token is.
 */
import { createHash } from 'node:crypto'
import type { SentUsageSnapshot, UsageSnapshot, WorkerFrameOf } from './frames.ts'
import {
  ID_CHARS_MAX,
  MERGED_USAGE_MODELS_MAX,
  USAGE_ENTRIES_MAX,
  USD_MAX,
  WORKER_FRAME_BYTES_MAX,
  WORKER_MAX_USAGE_SNAPSHOT_BYTES,
} from './limits.ts'
import { jsonBytes } from './text-budget.ts'
import { packUsage, type UsageEntry, usageText } from './usage.ts'

type UsageFrame = WorkerFrameOf<'run-usage-snapshot'>

/** For the wire only: what it answers may be in the packed form, which a reader turns back. */
export function fitUsage(frame: UsageFrame): UsageFrame {
  const { entries } = frame.snapshot
  // Packed already, by an earlier call.
  if (entries === undefined) return frame
  const whole = encodeWith(frame, entries)
  return whole ?? mergeLeast(frame, distinct(entries))
}

/** An entry that came twice counts once, which nobody could tell any more after it was merged. */
const distinct = (entries: readonly UsageEntry[]): UsageEntry[] => [
  ...new Map(entries.map((entry) => [entry.id, entry])).values(),
]

function mergeLeast(frame: UsageFrame, entries: readonly UsageEntry[]): UsageFrame {
  // More merged is never longer. -1: perhaps it was the repeats alone.
  let [tooFew, enough] = [-1, entries.length]
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (encodeWith(frame, mergeOldest(entries, middle)) === undefined) tooFew = middle
    else enough = middle
  }
  return encodeWith(frame, mergeOldest(entries, enough)) ?? withEntries(frame, [])
}

/** The frame with these entries, in the first form that fits; `undefined` when none does. */
function encodeWith(frame: UsageFrame, entries: readonly UsageEntry[]): UsageFrame | undefined {
  if (entries.length > USAGE_ENTRIES_MAX) return undefined
  const text = usageText(entries)
  if (Buffer.byteLength(text) > ARCHIVED_BYTES_MAX) return undefined
  const plain = withEntries(frame, entries)
  if (Buffer.byteLength(text) <= WORKER_FRAME_BYTES_MAX && fits(plain)) return plain
  const packed = withPacked(plain)
  return packed !== undefined && fits(packed) ? packed : undefined
}

/** What is archived says whose entries these are, too. */
const ARCHIVED_BYTES_MAX = WORKER_MAX_USAGE_SNAPSHOT_BYTES - 4 * 1024

const fits = (frame: UsageFrame): boolean => jsonBytes(frame) <= WORKER_FRAME_BYTES_MAX

function withEntries(frame: UsageFrame, entries: readonly UsageEntry[]): UsageFrame {
  if (entries === frame.snapshot.entries) return frame
  const { sha256, ...rest } = frame.snapshot
  const hash = sha256 === undefined ? {} : { sha256: hashOf(entries) }
  return { ...frame, snapshot: { ...rest, entries: [...entries], ...hash } }
}

const hashOf = (entries: readonly UsageEntry[]): string =>
  createHash('sha256').update(usageText(entries)).digest('hex')

function withPacked(frame: UsageFrame): UsageFrame | undefined {
  const { entries, ...rest } = frame.snapshot
  const packed = packUsage(entries)
  if (packed === undefined) return undefined
  const snapshot: SentUsageSnapshot = { ...rest, packed }
  // The frame's type speaks of what a reader gets out of it again.
  return { ...frame, snapshot: snapshot as unknown as UsageSnapshot }
}

// ---- merging -----------------------------------------------------------------------------------------------------

/** The first `count` entries become one for each model. */
export function mergeOldest(entries: readonly UsageEntry[], count: number): UsageEntry[] {
  const sums = new Map<string, UsageEntry>()
  for (const entry of entries.slice(0, count)) {
    const known = sums.has(entry.model) || sums.size < MERGED_USAGE_MODELS_MAX
    const model = known ? entry.model : OTHERS
    const sum = sums.get(model)
    sums.set(model, sum === undefined ? { ...entry, model, id: mergedId(sums.size) } : added(sum, entry))
  }
  return [...sums.values(), ...entries.slice(count)]
}

const OTHERS = 'other models'
const mergedId = (nth: number): string => `merged-${nth + 1}`.slice(0, ID_CHARS_MAX)

function added(sum: UsageEntry, entry: UsageEntry): UsageEntry {
  const { costUsd, ...counted } = sum
  const cost =
    costUsd === undefined || entry.costUsd === undefined
      ? {}
      : { costUsd: Math.min(costUsd + entry.costUsd, USD_MAX) }
  return {
    ...counted,
    at: entry.at,
    inputTokens: plus(sum.inputTokens, entry.inputTokens),
    outputTokens: plus(sum.outputTokens, entry.outputTokens),
    cacheReadTokens: plus(sum.cacheReadTokens, entry.cacheReadTokens),
    cacheWriteTokens: plus(sum.cacheWriteTokens, entry.cacheWriteTokens),
    ...cost,
  }
}

const plus = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)
