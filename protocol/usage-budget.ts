/**
 * Makes an oversized usage snapshot fit into a frame: as a list if possible, else packed.
 *
 * When the packed form is too long as well, the oldest entries are merged per model. Merging loses their instants and
 * order, but no tokens.
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

/** For the wire only: the result may be packed, and the reader unpacks it. */
export function fitUsage(frame: UsageFrame): UsageFrame {
  const { entries } = frame.snapshot
  // An earlier call has packed the snapshot already.
  if (entries === undefined) return frame
  const whole = encodeWith(frame, entries)
  return whole ?? mergeLeast(frame, distinct(entries))
}

/** Counts a repeated entry once; after merging, repetitions could not be detected. */
const distinct = (entries: readonly UsageEntry[]): UsageEntry[] => [
  ...new Map(entries.map((entry) => [entry.id, entry])).values(),
]

function mergeLeast(frame: UsageFrame, entries: readonly UsageEntry[]): UsageFrame {
  // More merging never makes the text longer. -1: removing repetitions alone may be enough.
  let [tooFew, enough] = [-1, entries.length]
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2)
    if (encodeWith(frame, mergeOldest(entries, middle)) === undefined) tooFew = middle
    else enough = middle
  }
  return encodeWith(frame, mergeOldest(entries, enough)) ?? withEntries(frame, [])
}

/** Returns the frame with these entries in the first form that fits; undefined when neither fits. */
function encodeWith(frame: UsageFrame, entries: readonly UsageEntry[]): UsageFrame | undefined {
  if (entries.length > USAGE_ENTRIES_MAX) return undefined
  const text = usageText(entries)
  if (Buffer.byteLength(text) > ARCHIVED_BYTES_MAX) return undefined
  const plain = withEntries(frame, entries)
  if (Buffer.byteLength(text) <= WORKER_FRAME_BYTES_MAX && fits(plain)) return plain
  const packed = withPacked(plain)
  return packed !== undefined && fits(packed) ? packed : undefined
}

/** The archived text also contains the snapshot's key. */
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
  // The frame's type describes the unpacked form that a reader gets.
  return { ...frame, snapshot: snapshot as unknown as UsageSnapshot }
}

// ---- merging -----------------------------------------------------------------------------------------------------

/** Merges the first `count` entries into one entry per model. */
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
