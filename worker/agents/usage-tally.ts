/**
 * Collects usage entries from an agent's transcripts: numbers, names and instants, without any conversation text.
 *
 * Transcripts are untrusted, so each field is validated: an unusual id is replaced by its hash, a model name must look
 * like one, an instant must be a valid date. A response recorded twice counts once, with its latest figures. Entries
 * beyond the limit of a snapshot are merged, oldest first.
 */
import { createHash } from 'node:crypto'
import { UNKNOWN_MODEL } from '../../core/run/cost.ts'
import { costUsdOf, type PriceTable, type TokenUse } from '../../core/run/price.ts'
import { usageHash } from '../../core/run/usage.ts'
import type { UsageSnapshot } from '../../protocol/frames.ts'
import { MERGED_USAGE_MODELS_MAX, USAGE_ENTRIES_MAX } from '../../protocol/limits.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import { mergeOldest } from '../../protocol/usage-budget.ts'
import { toIsoInstant } from './events.ts'

/** The usage of a response as a transcript records it. */
export interface RecordedUse {
  readonly id: string
  readonly at: string | undefined
  readonly model: string | undefined
  readonly use: TokenUse
  /** The usage is a sum of several unrecorded responses. */
  readonly isSum?: true
}

/** Responses of one session with its nested agents; a session with more was not written by the agent's own program. */
const RESPONSES_MAX = 10 * USAGE_ENTRIES_MAX

/** Tolerates a clock that was wrong by hours. Instants further in the future are invalid. */
const AHEAD_MS_MAX = 24 * 3_600_000

interface TallyBudget {
  responsesLeft: number
  readonly atMax: number
  /** The tally of the transcript that recorded a response first. */
  readonly owners: Map<string, UsageTally>
}

/**
 * Returns a factory for the tallies of one session, one per transcript. The tallies share a limit of responses and
 * count each response once, because a transcript may start as a copy of another. `readAt` is the time of reading in
 * wall-clock milliseconds.
 */
export function createTallyFactory(prices: PriceTable, readAt = Number.POSITIVE_INFINITY): () => UsageTally {
  const budget: TallyBudget = {
    responsesLeft: RESPONSES_MAX,
    atMax: readAt + AHEAD_MS_MAX,
    owners: new Map(),
  }
  return () => new UsageTally(prices, budget)
}

export class UsageTally {
  readonly #prices: PriceTable
  readonly #budget: TallyBudget
  readonly #entries = new Map<string, UsageEntry>()
  #at = new Date(0).toISOString()

  constructor(prices: PriceTable, budget: TallyBudget) {
    this.#prices = prices
    this.#budget = budget
  }

  /** Returns whether the response was counted. */
  add(recorded: RecordedUse): boolean {
    const id = toSafeId(recorded.id)
    if (!this.#owns(id)) return false
    const at = Date.parse(recorded.at ?? '')
    // An instant in the far future would hide all later usage, which readers select by its instant.
    this.#at = (at <= this.#budget.atMax ? toIsoInstant(at) : undefined) ?? this.#at
    this.#entries.set(id, toUsageEntry(id, this.#at, recorded, this.#prices))
    return true
  }

  #owns(id: string): boolean {
    const owner = this.#budget.owners.get(id)
    if (owner !== undefined) return owner === this
    if (this.#budget.responsesLeft <= 0) return false
    this.#budget.responsesLeft -= 1
    this.#budget.owners.set(id, this)
    return true
  }

  get size(): number {
    return this.#entries.size
  }

  /** In the order in which they were first recorded. */
  entries(): UsageEntry[] {
    return [...this.#entries.values()]
  }

  /** Returns undefined when no usage was recorded. */
  snapshot(source: UsageSource): UsageSnapshot | undefined {
    return buildSnapshot(source, this.entries())
  }
}

export type UsageSource = Pick<UsageSnapshot, 'projectKey' | 'sessionId' | 'subagentId'>

/** Returns undefined when there are no entries. */
export function buildSnapshot(source: UsageSource, all: UsageEntry[]): UsageSnapshot | undefined {
  const entries = fitToSnapshot(all)
  return entries.length === 0 ? undefined : { ...source, entries, sha256: usageHash(entries) }
}

/** Accepts names that can be part of a file path. */
export const isPathSafe = (name: string): boolean =>
  /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/.test(name) && !/\.json$/i.test(name)

function toUsageEntry(id: string, at: string, recorded: RecordedUse, prices: PriceTable): UsageEntry {
  const { use, isSum } = recorded
  const model = toSafeModel(recorded.model)
  const costUsd = costUsdOf(model, use, isSum === true ? 'sum' : 'request', prices)
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = use
  const counted = { id, at, model, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens }
  return costUsd === undefined ? counted : { ...counted, costUsd }
}

function fitToSnapshot(entries: UsageEntry[]): UsageEntry[] {
  const tooMany = entries.length - USAGE_ENTRIES_MAX
  return tooMany <= 0 ? entries : mergeOldest(entries, tooMany + MERGED_USAGE_MODELS_MAX + 1)
}

// ---- names -------------------------------------------------------------------------------------------------------

const PROVIDER_ID = /^(msg|req|resp)_[A-Za-z0-9]{1,64}$/
const ID_HEX_CHARS = 24

/**
 * Joins several ids with a colon and hashes unusual ones. The parts come separated by spaces, which no provider uses.
 */
export function toSafeId(id: string): string {
  if (id.split(' ').every((part) => PROVIDER_ID.test(part))) return id.replaceAll(' ', ':')
  return createHash('sha256').update(id).digest('hex').slice(0, ID_HEX_CHARS)
}

const MODEL = /^[A-Za-z0-9][A-Za-z0-9._:/@[\]-]{0,99}$/

export const toSafeModel = (model: string | undefined): string =>
  model !== undefined && MODEL.test(model) ? model : UNKNOWN_MODEL
