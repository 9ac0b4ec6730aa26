/**
 * Adds up the costs of a run's executions, and says where their figures come from.
 *
 * Tokens are always known, dollars sometimes. A sum of dollars covers the known amounts; it is absent when no amount
 * is known, and estimated when any amount is estimated or unknown. Sums stop at the largest storable number, so a
 * wrong report of a worker makes a wrong sum and not an unreadable record. An execution without a model counts under
 * `unknown`, so the rows of the totals add up to the totals.
 */
import type {
  CostEntry,
  CostModelTotal,
  CostModelUsage,
  CostSource,
  CostTotals,
} from '../../protocol/cost.ts'
import { RUN_COSTS_MAX } from '../../protocol/limits.ts'
import { extend } from '../extend.ts'
import { groupByModel, sumTokens, sumUsd } from './usage.ts'

export const UNKNOWN_MODEL = 'unknown'
/** The label or provider of a folded entry whose executions had different ones. */
export const SEVERAL = 'several'

export function totalsOf(costs: readonly CostEntry[]): CostTotals | undefined {
  if (costs.length === 0) return undefined
  const entries = costs.map(corrected)
  const rows = entries.flatMap(rowsOf)
  return extend(sumOf(entries), { byModel: byModel(rows) })
}

/** Makes each entry consistent, and sets the label that the host knows. */
export function labelled(costs: readonly CostEntry[], label: string): CostEntry[] {
  return costs.map((entry) => ({ ...corrected(entry), label }))
}

/** Returns the number of executions of the run itself: the highest number in a label. */
export function attemptsOf(costs: readonly CostEntry[]): number {
  const numbers = costs.map(({ label }) =>
    label === 'run' ? 1 : Number(/^attempt (\d{1,6})$/.exec(label)?.[1] ?? 0),
  )
  return Math.max(0, ...numbers)
}

/** `number` counts the executions of that kind from 1. */
export function labelFor(kind: 'run' | 'follow-up', number: number): string {
  if (kind === 'follow-up') return `follow-up ${number}`
  return number <= 1 ? 'run' : `attempt ${number}`
}

/**
 * Returns a run's costs after a lease has reported all of its own; `costsBefore` is the number of entries from before
 * the lease. A repeated report changes nothing. At least one entry always fits, because `foldExcessCosts` ran when
 * the run was queued.
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
 * Folds excess entries of a run that is queued again. A lease refers to earlier entries by their number, so no other
 * code may fold them while a lease lives.
 */
export function foldExcessCosts(costs: readonly CostEntry[]): CostEntry[] {
  return foldTo(costs, RUN_COSTS_MAX / 2)
}

/** Keeps the earliest entries and sums up the rest in the last one. */
export function foldTo(costs: readonly CostEntry[], max: number): CostEntry[] {
  if (costs.length <= max) return [...costs]
  return [...costs.slice(0, max - 1), foldedEntry(costs.slice(max - 1))]
}

function foldedEntry(costs: readonly CostEntry[]): CostEntry {
  const entries = costs.map(corrected)
  const breakdown = byModel(entries.flatMap(rowsOf)).map(({ estimated: _, ...row }) => row)
  const source = sharedSource(entries)
  return corrected({
    label: shared(entries.map(({ label }) => label)),
    provider: shared(entries.map(({ provider }) => provider)),
    ...sumOf(entries),
    ...(source === undefined ? {} : { source }),
    breakdown,
  })
}

function shared(words: readonly string[]): string {
  const [first = SEVERAL] = words
  return words.every((word) => word === first) ? first : SEVERAL
}

// ---- one entry -------------------------------------------------------------------------------------------------

/**
 * Replaces an entry's figures by the sum of its breakdown. A breakdown of one row is dropped, because it equals the
 * entry.
 */
function corrected(entry: CostEntry): CostEntry {
  if (entry.breakdown === undefined) return entry
  const { breakdown, ...own } = entry
  const [first, second] = breakdown
  if (first === undefined) return own
  const { costUsd: _, ...rest } = own
  const figures = { ...rest, ...sumOf(breakdown.map((row) => ({ ...row, estimated: own.estimated }))) }
  return second === undefined ? { ...figures, model: first.model } : { ...figures, breakdown }
}

type CostRow = CostModelUsage & { readonly estimated: boolean }

function rowsOf(entry: CostEntry): CostRow[] {
  const { breakdown, estimated, model = UNKNOWN_MODEL } = entry
  if (breakdown === undefined) return [extend(entry, { model })]
  return breakdown.map((row) => ({ ...row, estimated }))
}

// ---- sums ------------------------------------------------------------------------------------------------------

const byModel = (rows: readonly CostRow[]): CostModelTotal[] =>
  [...groupByModel(rows)].map(([model, modelRows]) => ({ model, ...sumOf(modelRows) }))

type CostFigures = Omit<CostModelTotal, 'model'>

function sumOf(parts: readonly CostFigures[]): CostFigures {
  const tokens = sumTokens(parts)
  const costUsd = sumUsd(parts)
  const isPartlyKnown = costUsd !== undefined && parts.some((part) => part.costUsd === undefined)
  const estimated = isPartlyKnown || parts.some((part) => part.estimated)
  return extend(tokens, costUsd === undefined ? { estimated } : { costUsd, estimated })
}

// ---- sources -----------------------------------------------------------------------------------------------------

export const SCRIPTED_MODEL = 'scripted-1'
export const SMALL_SCRIPTED_MODEL = 'scripted-1-mini'
const EXAMPLE_MODELS: readonly (string | undefined)[] = [SCRIPTED_MODEL, SMALL_SCRIPTED_MODEL]

/**
 * Says where the figures of a cost entry come from: from the vendor, from a price table, or from the scripted agent.
 *
 * The models of the scripted agent have names of their own, so its figures are recognized in streams and transcripts.
 */
export function withSource(entry: CostEntry): CostEntry {
  return { ...entry, source: sourceOf(entry) }
}

function sourceOf({ model, breakdown, estimated }: CostEntry): CostSource {
  const models = breakdown?.map((row) => row.model) ?? [model]
  if (models.every((name) => EXAMPLE_MODELS.includes(name))) return 'example'
  return estimated ? 'estimated' : 'reported'
}

/** Returns the source that all parts of a sum have; undefined when their sources differ or are unknown. */
function sharedSource(parts: readonly CostEntry[]): CostSource | undefined {
  const [first] = parts
  return parts.every(({ source }) => source === first?.source) ? first?.source : undefined
}
