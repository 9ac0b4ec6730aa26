/**
 * What a person's session in a retained sandbox cost, from what is exported of it when it ends.
 *
 * An export holds the whole of the agent's session, the executions of the run included, so only what is younger than
 * a given instant counts. A session's own transcript and those of its subagents come one by one, in any order and
 * perhaps twice: each is a part, and a part that comes again takes the place of what it said before.
 */
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import { COST_MODELS_MAX, RUN_COSTS_MAX, USD_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import { foldExcessCosts, labelled, OTHER_MODELS, totalsOf } from './cost.ts'
import { costUsdOf, type PriceTable } from './price.ts'

/** A row a model. */
export type SessionCostPart = readonly CostModelUsage[]

/** What of an export is younger than `since`, an instant as records write it. */
export function sessionCostPart(
  entries: readonly UsageEntry[],
  since: string,
  prices: PriceTable,
): SessionCostPart {
  const distinct = new Map(entries.map((entry) => [entry.id, entry]))
  const fresh = [...distinct.values()].filter(({ at }) => at > since)
  return byModel(fresh.map((entry) => rowOf(entry, prices)))
}

/** The youngest instant in it; empty when there is none. */
export function newestInstant(entries: readonly UsageEntry[]): string {
  return entries.reduce((newest, { at }) => (at > newest ? at : newest), '')
}

/** `undefined`: nothing was used. */
export function sessionCost(parts: readonly SessionCostPart[], number: number): CostEntry | undefined {
  const breakdown = byModel(parts.flat())
  if (breakdown.length === 0) return undefined
  const nothing = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const entry: CostEntry = { label: '', provider: 'agentA', ...nothing, estimated: true, breakdown }
  return labelled([entry], sessionLabel(number))[0]
}

/** Sessions of a run are counted from 1, as its costs tell them. */
export function countSessions(costs: readonly CostEntry[]): number {
  return Math.max(0, ...costs.map(({ label }) => Number(/^attach (\d{1,6})$/.exec(label)?.[1] ?? 0)))
}

/**
 * The run with this entry among its costs: in the place of the one that has its label, else behind the others. Only
 * for a run at rest: a lease names the costs before its own by their number.
 */
export function addSessionCost(run: Run, entry: CostEntry): Run {
  const at = run.costs.findIndex(({ label }) => label === entry.label)
  const room = run.costs.length < RUN_COSTS_MAX ? run.costs : foldExcessCosts(run.costs)
  const costs = at < 0 ? [...room, entry] : run.costs.with(at, entry)
  const { costTotals: _, ...rest } = run
  const costTotals = totalsOf(costs)
  return { ...rest, costs, ...(costTotals === undefined ? {} : { costTotals }) }
}

const sessionLabel = (number: number): string => `attach ${number}`

function rowOf({ id: _, at: __, ...entry }: UsageEntry, prices: PriceTable): CostModelUsage {
  if (entry.costUsd !== undefined) return entry
  const costUsd = costUsdOf(entry.model, entry, 'request', prices)
  return costUsd === undefined ? entry : { ...entry, costUsd }
}

function byModel(rows: readonly CostModelUsage[]): CostModelUsage[] {
  const sums = new Map<string, CostModelUsage>()
  for (const row of rows) {
    const hasOwnRow = sums.has(row.model) || sums.size < COST_MODELS_MAX - 1
    const model = hasOwnRow ? row.model : OTHER_MODELS
    const sum = sums.get(model)
    sums.set(model, sum === undefined ? { ...row, model } : added(sum, row))
  }
  return [...sums.values()]
}

/** What is known of two costs is a lower bound of both. */
function added(a: CostModelUsage, b: CostModelUsage): CostModelUsage {
  const known = [a.costUsd, b.costUsd].filter((usd) => usd !== undefined)
  return {
    model: a.model,
    inputTokens: sum(a.inputTokens, b.inputTokens),
    outputTokens: sum(a.outputTokens, b.outputTokens),
    cacheReadTokens: sum(a.cacheReadTokens, b.cacheReadTokens),
    cacheWriteTokens: sum(a.cacheWriteTokens, b.cacheWriteTokens),
    ...(known.length === 0 ? {} : { costUsd: dollars(known.reduce((total, usd) => total + usd, 0)) }),
  }
}

/** Finer than any price of a token, coarse enough to hide what floating point makes of 0.1 + 0.2. */
const USD_STEPS = 1e9
const dollars = (usd: number): number => Math.round(Math.min(usd, USD_MAX) * USD_STEPS) / USD_STEPS

const sum = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)
