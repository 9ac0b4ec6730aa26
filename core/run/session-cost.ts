/**
 * Computes the cost of a person's session in a retained sandbox from the usage exported at its end.
 *
 * An export contains the whole agent session, the run's executions included, so only entries after a given instant
 * count. The transcripts of a session and of its subagents arrive one by one, in any order and possibly twice: each
 * is a part, and a repeated part replaces its earlier version.
 */
import { RESUMABLE_AGENT } from '../../protocol/agents/registry.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import { COST_MODELS_MAX, RUN_COSTS_MAX, USD_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import { foldExcessCosts, labelled, OTHER_MODELS, totalsOf } from './cost.ts'
import { withSource } from './cost-source.ts'
import { costUsdOf, type PriceTable } from './price.ts'

/** The usage of one transcript, one row per model. */
export type SessionCostPart = readonly CostModelUsage[]

/** Sums up the entries of an export after `since`, an ISO instant. */
export function sessionCostPart(
  entries: readonly UsageEntry[],
  since: string,
  prices: PriceTable,
): SessionCostPart {
  const distinct = new Map(entries.map((entry) => [entry.id, entry]))
  const fresh = [...distinct.values()].filter(({ at }) => at > since)
  return byModel(fresh.map((entry) => rowOf(entry, prices)))
}

/** Returns the newest instant; empty when there are no entries. */
export function newestInstant(entries: readonly UsageEntry[]): string {
  return entries.reduce((newest, { at }) => (at > newest ? at : newest), '')
}

/** Returns undefined when nothing was used. */
export function sessionCost(parts: readonly SessionCostPart[], number: number): CostEntry | undefined {
  const breakdown = byModel(parts.flat())
  if (breakdown.length === 0) return undefined
  const nothing = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const entry: CostEntry = { label: '', provider: RESUMABLE_AGENT, ...nothing, estimated: true, breakdown }
  return labelled([withSource(entry)], sessionLabel(number))[0]
}

/** Sessions of a run are counted from 1 in the labels of its costs. */
export function countSessions(costs: readonly CostEntry[]): number {
  return Math.max(0, ...costs.map(({ label }) => Number(/^attach (\d{1,6})$/.exec(label)?.[1] ?? 0)))
}

/**
 * Adds a cost entry to a finished run, in place of the entry with the same label. Only finished runs: a live lease
 * refers to earlier entries by their number.
 */
export function addSessionCost(run: Run, entry: CostEntry): Run {
  const at = run.costs.findIndex(({ label }) => label === entry.label)
  const kept = run.costs.length < RUN_COSTS_MAX ? run.costs : foldExcessCosts(run.costs)
  const costs = at < 0 ? [...kept, entry] : run.costs.with(at, entry)
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

/** The known part of two costs is a lower bound of both. */
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

/** Finer than any price per token, coarse enough to hide floating-point errors such as 0.1 + 0.2. */
const USD_STEPS = 1e9
const dollars = (usd: number): number => Math.round(Math.min(usd, USD_MAX) * USD_STEPS) / USD_STEPS

const sum = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)
