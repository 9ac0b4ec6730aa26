/**
 * The entries of a usage snapshot in three forms: as a list, as the archived text, and packed for the wire.
 *
 * A long session written out is larger than a frame, mostly because every entry repeats all field names. Packed, each
 * field is one list: the common prefix of the ids is written once, models are numbered, instants are milliseconds
 * since the previous one. Packing loses nothing, so a hash of the archived text is the same on both sides. The
 * unpacker trusts no length: it computes the size of the result first.
 */
import Type, { type Static } from 'typebox'
import { ID_CHARS_MAX, USAGE_ENTRIES_MAX, WORKER_MAX_USAGE_SNAPSHOT_BYTES } from './limits.ts'
import { type Checker, createChecker, type Parsed, prefixError } from './parse.ts'
import { problemAt } from './schema-errors.ts'
import { boundedList, Count, ForeignId, Instant, Name, record, text, Usd } from './schema-helpers.ts'

/** Contains only numbers and names, so no field can hold text of a prompt or an answer. */
export const UsageEntry = record('UsageEntry', {
  id: ForeignId,
  at: Instant,
  model: Name,
  inputTokens: Count,
  outputTokens: Count,
  cacheReadTokens: Count,
  cacheWriteTokens: Count,
  costUsd: Type.Optional(Usd),
})
export type UsageEntry = Static<typeof UsageEntry>

const Column = boundedList(Count, USAGE_ENTRIES_MAX)
const Steps = boundedList(
  Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
  USAGE_ENTRIES_MAX,
)

/** Every list has one element per entry, except `models`; `model` contains indexes into `models`, from 0. */
export const PackedUsage = record('PackedUsage', {
  models: boundedList(Name, USAGE_ENTRIES_MAX),
  idsBegin: text(ID_CHARS_MAX, 'What all ids have in front of what `ids` says.'),
  ids: boundedList(text(ID_CHARS_MAX), USAGE_ENTRIES_MAX),
  at: Steps,
  model: Column,
  inputTokens: Column,
  outputTokens: Column,
  cacheReadTokens: Column,
  cacheWriteTokens: Column,
  costUsd: Type.Optional(boundedList(Type.Union([Usd, Type.Null()]), USAGE_ENTRIES_MAX)),
})
export type PackedUsage = Static<typeof PackedUsage>

const UsageEntries = boundedList(UsageEntry, USAGE_ENTRIES_MAX)
const checkEntries: Checker<UsageEntry[]> = createChecker(UsageEntries)

/**
 * The archived form: always the same fields in the same order, so that equal entries have equal text and an equal
 * hash.
 */
export function usageText(entries: readonly UsageEntry[]): string {
  return JSON.stringify(entries.map(orderFields))
}

function orderFields(entry: UsageEntry): UsageEntry {
  const { id, at, model, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd } = entry
  const counted = { id, at, model, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return costUsd === undefined ? counted : { ...counted, costUsd }
}

// ---- packing -----------------------------------------------------------------------------------------------------

/** Returns undefined when an instant is not a calendar date, because it would not survive packing. */
export function packUsage(entries: readonly UsageEntry[]): PackedUsage | undefined {
  const times = entries.map((entry) => Date.parse(entry.at))
  if (times.some((ms, i) => !isInstant(ms, entries[i]?.at))) return undefined
  const models = [...new Set(entries.map(({ model }) => model))]
  const numbers = new Map(models.map((model, i) => [model, i]))
  const idsBegin = commonPrefix(entries.map(({ id }) => id))
  const hasCosts = entries.some(({ costUsd }) => costUsd !== undefined)
  return {
    models,
    idsBegin,
    ids: entries.map(({ id }) => id.slice(idsBegin.length)),
    at: times.map((ms, i) => ms - (times[i - 1] ?? 0)),
    model: entries.map(({ model }) => numbers.get(model) ?? 0),
    inputTokens: entries.map((entry) => entry.inputTokens),
    outputTokens: entries.map((entry) => entry.outputTokens),
    cacheReadTokens: entries.map((entry) => entry.cacheReadTokens),
    cacheWriteTokens: entries.map((entry) => entry.cacheWriteTokens),
    ...(hasCosts ? { costUsd: entries.map((entry) => entry.costUsd ?? null) } : {}),
  }
}

function commonPrefix(texts: readonly string[]): string {
  const [first = '', ...others] = texts
  let length = first.length
  for (const text of others) {
    while (!text.startsWith(first.slice(0, length))) length -= 1
  }
  return first.slice(0, length)
}

const isInstant = (ms: number, text: string | undefined): boolean =>
  Number.isFinite(ms) && new Date(ms).toISOString() === text

// ---- unpacking ---------------------------------------------------------------------------------------------------

const COLUMNS = ['at', 'model', 'inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens'] as const
/** Shortest text of an entry without its id and model. */
const ENTRY_BYTES_MIN = 130
/** Years 0 to 9999, the range of an ISO instant. */
const MS_MIN = -62_167_219_200_000
const MS_MAX = 253_402_300_799_999

/** `packed` has passed its schema. */
export function unpackUsage(packed: PackedUsage): Parsed<UsageEntry[]> {
  const fault = findUnevenColumn(packed) ?? findOversize(packed)
  if (fault !== undefined) return { ok: false, error: fault }
  const entries: UsageEntry[] = []
  let ms = 0
  for (const [i, id] of packed.ids.entries()) {
    ms += packed.at[i] ?? 0
    if (ms < MS_MIN || ms > MS_MAX) return { ok: false, error: problemAt(['at', String(i)], 'is no instant') }
    entries.push(entryAt(packed, i, packed.idsBegin + id, new Date(ms).toISOString()))
  }
  return prefixError('/entries', checkEntries(entries))
}

function entryAt(packed: PackedUsage, i: number, id: string, at: string): UsageEntry {
  const costUsd = packed.costUsd?.[i] ?? undefined
  return {
    id,
    at,
    model: modelAt(packed, i),
    inputTokens: packed.inputTokens[i] ?? 0,
    outputTokens: packed.outputTokens[i] ?? 0,
    cacheReadTokens: packed.cacheReadTokens[i] ?? 0,
    cacheWriteTokens: packed.cacheWriteTokens[i] ?? 0,
    ...(costUsd === undefined ? {} : { costUsd }),
  }
}

const modelAt = ({ models, model }: PackedUsage, i: number): string => models[model[i] ?? 0] ?? ''

function findUnevenColumn(packed: PackedUsage): string | undefined {
  const length = packed.ids.length
  const costs = packed.costUsd?.length ?? length
  const odd = costs === length ? COLUMNS.find((name) => packed[name].length !== length) : 'costUsd'
  if (odd !== undefined) return problemAt([odd], `must have as many entries as ids, which is ${length}`)
  const wild = packed.model.findIndex((number) => number >= packed.models.length)
  return wild < 0 ? undefined : problemAt(['model', String(wild)], 'must be the place of a name in models')
}

/** A long prefix or name that is written once could unpack to any number of megabytes. */
function findOversize(packed: PackedUsage): string | undefined {
  let bytes = 0
  for (const [i, id] of packed.ids.entries()) {
    bytes += ENTRY_BYTES_MIN + packed.idsBegin.length + id.length + modelAt(packed, i).length
  }
  if (bytes <= WORKER_MAX_USAGE_SNAPSHOT_BYTES) return undefined
  return problemAt([], `must unpack to at most ${WORKER_MAX_USAGE_SNAPSHOT_BYTES} bytes`)
}
