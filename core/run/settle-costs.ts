/**
 * Adds the costs of an ended lease to its run, after the lease's worker has reported them.
 *
 * The entries take the place of what the lease had reported before its end, in front of those of later attempts. The
 * entries of the current lease stay the last ones, because a lease refers to earlier entries by their number.
 */
import type { CostEntry } from '../../protocol/cost.ts'
import { RUN_COSTS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { isJsonEqual } from '../settings/json-values.ts'
import { foldTo, labelled, totalsOf } from './cost.ts'

/** The entries of one lease among the costs of its run. `from`: how many entries came before them. */
export interface LeaseShare {
  readonly label: string
  readonly from: number
  readonly entries: readonly CostEntry[]
}

/**
 * Returns a run's costs after the worker of an ended lease has reported what its execution cost. The lease's share
 * contains what it had reported before its end. The entries of the current lease begin at `costsBefore`.
 */
export function settleLeaseCosts(
  { costs, costsBefore }: { readonly costs: readonly CostEntry[]; readonly costsBefore: number },
  { label, from, entries }: LeaseShare,
  reported: readonly CostEntry[],
): { costs: CostEntry[]; costsBefore: number } {
  const current = costs.slice(costsBefore)
  const others = withoutEach(costs.slice(0, costsBefore), entries)
  // The entries were folded with others, so they contain the costs already.
  if (others === undefined) return { costs: [...costs], costsBefore }
  const placed = others.toSpliced(Math.min(from, others.length), 0, ...labelled(reported, label))
  // Each side keeps room for one entry, in which it can be summed up.
  const earlier = foldTo(placed, Math.max(1, RUN_COSTS_MAX - Math.max(1, current.length)))
  return {
    costs: [...earlier, ...foldTo(current, RUN_COSTS_MAX - earlier.length)],
    costsBefore: earlier.length,
  }
}

/** Removes one equal entry for each of `removed`; undefined when one is missing. */
function withoutEach(
  costs: readonly CostEntry[],
  removed: readonly CostEntry[],
): readonly CostEntry[] | undefined {
  let left = costs
  for (const entry of removed) {
    const at = left.findIndex((candidate) => isJsonEqual(candidate, entry))
    if (at < 0) return undefined
    left = left.toSpliced(at, 1)
  }
  return left
}

/** Adds the costs of an ended lease. `costsBefore`: the number of entries from before the current lease. */
export function settleCosts(
  run: Run,
  costsBefore: number,
  share: LeaseShare,
  reported: readonly CostEntry[],
): { readonly run: Run; readonly costsBefore: number } {
  const settled = settleLeaseCosts({ costs: run.costs, costsBefore }, share, reported)
  const { costTotals: _, ...rest } = run
  const costTotals = totalsOf(settled.costs)
  return {
    run: { ...rest, costs: settled.costs, ...(costTotals === undefined ? {} : { costTotals }) },
    costsBefore: settled.costsBefore,
  }
}
