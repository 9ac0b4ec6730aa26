/**
 * What a run's executions cost, added up.
 *
 * Tokens are always known, dollars sometimes. A sum of dollars is the sum of those that are known, absent when none
 * is, and called estimated when any part of it is, or when some part is unknown: a lower bound is not a bill.
 * Sums stop at what a record can hold, so that a worker that lies makes a wrong bill and not a broken record.
 * An execution that names no model counts under `unknown`, so that the rows of the totals add up to the totals.
 */
import type { CostEntry, CostModelTotal, CostModelUsage, CostTotals } from '../../protocol/cost.ts'
import { COST_MODELS_MAX, RUN_COSTS_MAX, USD_MAX } from '../../protocol/limits.ts'

export const UNKNOWN_MODEL = 'unknown'
/** What models beyond COST_MODELS_MAX are counted under. */
export const OTHER_MODELS = 'other models'
/** The label and the provider of executions folded into one entry that did not share theirs. */
export const SEVERAL = 'several'

/** Finer than any price of a token, coarse enough to hide what floating point makes of 0.1 + 0.2. */
const USD_STEPS = 1e9

export function totalsOf(costs: readonly CostEntry[]): CostTotals | undefined {
  if (costs.length === 0) return undefined
  const entries = costs.map(corrected)
  const rows = entries.flatMap(rowsOf)
  return { ...sumOf(entries), byModel: byModel(rows) }
}

/** Each entry made consistent, and labelled with what the host knows it to be. */
export function labelled(costs: readonly CostEntry[], label: string): CostEntry[] {
  return costs.map((entry) => ({ ...corrected(entry), label }))
}

/** How many executions of the run itself these tell of: the highest number that a label carries. */
export function attemptsOf(costs: readonly CostEntry[]): number {
  const numbers = costs.map(({ label }) =>
    label === 'run' ? 1 : Number(/^attempt (\d{1,6})$/.exec(label)?.[1] ?? 0),
  )
  return Math.max(0, ...numbers)
}

/** `number` counts executions of that kind from 1. */
export function labelFor(kind: 'run' | 'follow-up', number: number): string {
  if (kind === 'follow-up') return `follow-up ${number}`
  return number <= 1 ? 'run' : `attempt ${number}`
}

/**
 * A run's costs once a lease that found `before` of them has reported all of its own. Saying it again changes
 * nothing. There is always room for one: `withRoom` has seen to it when the run was queued.
 */
export function replaceLeaseCosts(
  costs: readonly CostEntry[],
  costsBefore: number,
  reported: readonly CostEntry[],
  label: string,
): CostEntry[] {
  const earlier = costs.slice(0, Math.min(costsBefore, RUN_COSTS_MAX - 1))
  return [...earlier, ...foldTo(labelled(reported, label), RUN_COSTS_MAX - earlier.length)]
}

/**
 * For a run that is queued again. Entries are folded here and only here between leases: a lease names those before it
 * by their number, so nothing may move them while it lives.
 */
export function foldExcessCosts(costs: readonly CostEntry[]): CostEntry[] {
  return foldTo(costs, RUN_COSTS_MAX / 2)
}

/** The earliest stay as they are; what is too many is added up in the last. */
function foldTo(costs: readonly CostEntry[], max: number): CostEntry[] {
  if (costs.length <= max) return [...costs]
  return [...costs.slice(0, max - 1), foldedEntry(costs.slice(max - 1))]
}

function foldedEntry(costs: readonly CostEntry[]): CostEntry {
  const entries = costs.map(corrected)
  const breakdown = byModel(entries.flatMap(rowsOf)).map(({ estimated: _, ...row }) => row)
  return corrected({
    label: shared(entries.map(({ label }) => label)),
    provider: shared(entries.map(({ provider }) => provider)),
    ...sumOf(entries),
    breakdown,
  })
}

function shared(words: readonly string[]): string {
  const [first = SEVERAL] = words
  return words.every((word) => word === first) ? first : SEVERAL
}

// ---- one entry -------------------------------------------------------------------------------------------------

/** The figures of an entry are those of its rows, whatever it says of itself. One row is no breakdown: it is the execution. */
function corrected(entry: CostEntry): CostEntry {
  const { breakdown = [], ...own } = entry
  const [first, second] = breakdown
  if (first === undefined) return own
  const { costUsd: _, ...rest } = own
  const figures = { ...rest, ...sumOf(breakdown.map((row) => ({ ...row, estimated: own.estimated }))) }
  return second === undefined ? { ...figures, model: first.model } : { ...figures, breakdown }
}

type CostRow = CostModelUsage & { readonly estimated: boolean }

function rowsOf({ breakdown, label: _, provider: __, ...own }: CostEntry): CostRow[] {
  if (breakdown === undefined) return [{ ...own, model: own.model ?? UNKNOWN_MODEL }]
  return breakdown.map((row) => ({ ...row, estimated: own.estimated }))
}

// ---- sums ------------------------------------------------------------------------------------------------------

function byModel(rows: readonly CostRow[]): CostModelTotal[] {
  const models = new Map<string, CostRow[]>()
  for (const row of rows) {
    const hasOwnRow = models.has(row.model) || models.size < COST_MODELS_MAX - 1
    const model = hasOwnRow ? row.model : OTHER_MODELS
    const found = models.get(model)
    if (found === undefined) models.set(model, [row])
    else found.push(row)
  }
  return [...models].map(([model, its]) => ({ model, ...sumOf(its) }))
}

type CostFigures = Omit<CostModelTotal, 'model'>

function sumOf(parts: readonly CostFigures[]): CostFigures {
  const known = parts.flatMap(({ costUsd }) => (costUsd === undefined ? [] : [costUsd]))
  const partly = known.length > 0 && known.length < parts.length
  return {
    inputTokens: tokensOf(parts, 'inputTokens'),
    outputTokens: tokensOf(parts, 'outputTokens'),
    cacheReadTokens: tokensOf(parts, 'cacheReadTokens'),
    cacheWriteTokens: tokensOf(parts, 'cacheWriteTokens'),
    ...(known.length === 0 ? {} : { costUsd: dollarsOf(known) }),
    estimated: partly || parts.some(({ estimated }) => estimated),
  }
}

type TokenField = 'inputTokens' | 'outputTokens' | 'cacheReadTokens' | 'cacheWriteTokens'

function tokensOf(parts: readonly CostFigures[], key: TokenField): number {
  return parts.reduce((sum, part) => Math.min(sum + part[key], Number.MAX_SAFE_INTEGER), 0)
}

function dollarsOf(known: readonly number[]): number {
  const sum = Math.min(
    known.reduce((total, one) => total + one, 0),
    USD_MAX,
  )
  return Math.round(sum * USD_STEPS) / USD_STEPS
}
