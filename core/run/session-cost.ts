/**
 * Computes the cost of a person's session in a retained sandbox from the usage exported at its end.
 *
 * An export contains the whole agent session, the run's executions included, so only entries after a given instant
 * count. The transcripts of a session and of its subagents arrive one by one, in any order and possibly twice: each
 * is a part, and a repeated part replaces its earlier version.
 */
import { RESUMABLE_AGENT } from '../../protocol/agents/registry.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import { RUN_COSTS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import type { UsageEntry } from '../../protocol/usage.ts'
import { foldExcessCosts, labelled, totalsOf, withSource } from './cost.ts'
import type { PriceTable } from './price.ts'
import { priceEntry, sumByModel } from './usage.ts'

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
  return sumByModel(fresh.map((entry) => priceEntry(entry, prices)))
}

/** Returns the newest instant; empty when there are no entries. */
export function newestInstant(entries: readonly UsageEntry[]): string {
  return entries.reduce((newest, { at }) => (at > newest ? at : newest), '')
}

/** Returns undefined when nothing was used. */
export function sessionCost(parts: readonly SessionCostPart[], number: number): CostEntry | undefined {
  const breakdown = sumByModel(parts.flat())
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
