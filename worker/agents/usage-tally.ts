/**
 * Usage entries out of an agent's transcripts: numbers, names and instants, and no word of what was said.
 *
 * A transcript is the agent's to write, so each field is taken for what it may be: an id that no provider makes is
 * replaced by its hash, a model's name has the letters of one, a time is on the calendar. A response told twice counts
 * once, as it was told last. What is more than a snapshot holds is added up, oldest first.
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

/** One response, as a transcript tells of it. */
export interface RecordedUse {
  readonly id: string
  readonly at: string | undefined
  readonly model: string | undefined
  readonly use: TokenUse
  /** Of any number of responses, which nobody told of one by one. */
  readonly isSum?: true
}

/** Of one session with all its nested agents; one that has more was not written by the agent's own program. */
const RESPONSES_MAX = 10 * USAGE_ENTRIES_MAX

/** A clock that was wrong is set right by hours, at times. What is to come still later was never told by any. */
const AHEAD_MS_MAX = 24 * 3_600_000

interface TallyBudget {
  responsesLeft: number
  readonly atMax: number
  /** Whichever transcript told of it first. */
  readonly owners: Map<string, UsageTally>
}

/**
 * Makes the tallies of one session, one for each transcript. Together they remember so many responses and no more, and
 * each response once: a transcript may begin as a copy of another. `readAt`: when they are read, wall milliseconds.
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

  /** Answers whether it is remembered. */
  add(recorded: RecordedUse): boolean {
    const id = toSafeId(recorded.id)
    if (!this.#owns(id)) return false
    const at = Date.parse(recorded.at ?? '')
    // One from far ahead would stand for all that comes until then: later use is told from earlier by when it was.
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

  /** In the order in which they were told first. */
  entries(): UsageEntry[] {
    return [...this.#entries.values()]
  }

  /** `undefined`: nothing was used. */
  snapshot(source: UsageSource): UsageSnapshot | undefined {
    return buildSnapshot(source, this.entries())
  }
}

export type UsageSource = Pick<UsageSnapshot, 'projectKey' | 'sessionId' | 'subagentId'>

/** `undefined`: nothing was used. */
export function buildSnapshot(source: UsageSource, all: UsageEntry[]): UsageSnapshot | undefined {
  const entries = fitToSnapshot(all)
  return entries.length === 0 ? undefined : { ...source, entries, sha256: usageHash(entries) }
}

/** What a name must be to become part of a file's path. */
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

/** Parts are joined by a space, which no provider's id has in it. */
export function toSafeId(id: string): string {
  if (id.split(' ').every((part) => PROVIDER_ID.test(part))) return id.replaceAll(' ', ':')
  return createHash('sha256').update(id).digest('hex').slice(0, ID_HEX_CHARS)
}

const MODEL = /^[A-Za-z0-9][A-Za-z0-9._:/@[\]-]{0,99}$/

export const toSafeModel = (model: string | undefined): string =>
  model !== undefined && MODEL.test(model) ? model : UNKNOWN_MODEL
