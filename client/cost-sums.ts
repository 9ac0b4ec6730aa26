/** Adds up what runs have cost, by day, repository, model or agent: the one sum of the commands and of the pages. */
import type { CostEntry } from '../protocol/cost.ts'
import type { CostGroup } from '../protocol/cost-groups.ts'
import type { Run } from '../protocol/run.ts'
import type { SpentCost } from './spent-costs.ts'

/** A row: the sum of all entries with the same key. */
export interface CostSum {
  readonly key: string
  readonly runs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** Absent when no entry names an amount. */
  readonly costUsd?: number
  /** The part of `costUsd` that was computed, not billed. */
  readonly estimatedUsd?: number
}

/** The usage of one agent execution, or of one model in it. */
export type CostPart = Pick<
  CostEntry,
  | 'provider'
  | 'inputTokens'
  | 'outputTokens'
  | 'cacheReadTokens'
  | 'cacheWriteTokens'
  | 'costUsd'
  | 'estimated'
  | 'source'
> & {
  readonly key: string
  readonly run: Run
  /** Wall milliseconds. */
  readonly at: number
}

/** Stands where the record of a run does not name the repository or the model. */
export const NO_KEY = '-'
const USD_DIGITS = 9

/** Only a row for each model needs the parts of an entry. */
export function partsOf(cost: SpentCost, by: CostGroup, dayOf: (at: number) => string): CostPart[] {
  const { run, at, entry } = cost
  const { provider, estimated, source, breakdown = [] } = entry
  if (by !== 'model') return [{ ...entry, run, at, key: keyOf(cost, by, dayOf) }]
  if (breakdown.length === 0) return [{ ...entry, run, at, key: entry.model ?? NO_KEY }]
  return breakdown.map((usage) => ({
    ...usage,
    provider,
    estimated,
    run,
    at,
    key: usage.model,
    ...(source === undefined ? {} : { source }),
  }))
}

function keyOf(
  { run, entry, at }: SpentCost,
  by: Exclude<CostGroup, 'model'>,
  dayOf: (at: number) => string,
): string {
  if (by === 'day') return dayOf(at)
  return by === 'agent' ? entry.provider : (run.ticket.repo ?? run.pull?.remote ?? NO_KEY)
}

/** Such a part names tokens only. */
export const isUnpriced = ({ costUsd }: Pick<CostPart, 'costUsd'>): boolean => costUsd === undefined

/** A sum for each key, in the order of the keys. */
export function groupParts(parts: readonly CostPart[]): CostSum[] {
  const groups = new Map<string, CostPart[]>()
  for (const part of parts) {
    const members = groups.get(part.key)
    if (members === undefined) groups.set(part.key, [part])
    else members.push(part)
  }
  const sums = [...groups].map(([key, members]) => sumOf(key, members))
  return sums.sort((a, b) => (a.key < b.key ? -1 : 1))
}

type TokenCount = 'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'

export function sumOf(key: string, parts: readonly CostPart[]): CostSum {
  const tokens = (name: TokenCount) => parts.reduce((sum, part) => sum + part[name], 0)
  const priced = parts.filter((part) => !isUnpriced(part))
  const estimated = priced.filter((part) => part.estimated)
  return {
    key,
    runs: new Set(parts.map(({ run }) => run.id)).size,
    inputTokens: tokens('inputTokens'),
    outputTokens: tokens('outputTokens'),
    cacheReadTokens: tokens('cacheReadTokens'),
    cacheWriteTokens: tokens('cacheWriteTokens'),
    ...(priced.length === 0 ? {} : { costUsd: dollarsOf(priced) }),
    ...(estimated.length === 0 ? {} : { estimatedUsd: dollarsOf(estimated) }),
  }
}

/** Sums of binary fractions have digits behind the last one that means something. */
const dollarsOf = (parts: readonly CostPart[]): number =>
  Number(parts.reduce((sum, { costUsd = 0 }) => sum + costUsd, 0).toFixed(USD_DIGITS))
