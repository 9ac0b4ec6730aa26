/** `switchyard costs`: what runs have cost, added up by day, repository, model or agent. */

import { agentName } from '../../../client/agent-names.ts'
import {
  type CostPart,
  type CostSum,
  groupParts,
  isUnpriced,
  partsOf,
  readAllRuns,
  readCostsOf,
  sumOf,
} from '../../../client/cost-sums.ts'
import type { CostGroup } from '../../../protocol/cost-groups.ts'
import { formatCost, formatTokens, tokensRead } from '../../output/amounts.ts'
import type { TableColumn } from '../../output/table.ts'
import { parseSince } from '../../output/times.ts'
import { unwrapOrExit } from '../../process/exit.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { createSpentContext } from './spent.ts'

export interface CostsOptions extends ClientOptions {
  readonly by: CostGroup
  readonly since?: string | undefined
}

const TOTAL = 'total'

export async function costs(context: CommandContext<CostsOptions>): Promise<void> {
  const { output, options, present } = context
  const { now, offset } = present()
  const since =
    options.since === undefined ? 0 : unwrapOrExit(parseSince(options.since, '--since', { now, offset }))
  const { sums, total, unpriced } = await readCosts(context, { by: options.by, since })
  const rows = sums.length > 1 && output.stdout.isTerminal ? [...sums, total] : sums
  output.list({
    records: rows,
    id: ({ key }) => key,
    columns: costColumns(options.by),
    json: { by: options.by, rows: sums, total },
    empty: since === 0 ? 'No run has cost anything yet.' : 'No run has cost anything since then.',
  })
  if (unpriced.length > 0) output.note(describeUnpriced(unpriced))
}

interface Costs {
  readonly sums: readonly CostSum[]
  readonly total: CostSum
  /** Parts that name tokens only. */
  readonly unpriced: readonly CostPart[]
}

/** Adds up what was spent since an instant. */
export async function readCosts(
  context: Pick<CommandContext, 'client' | 'connection' | 'present'>,
  { by, since }: { readonly by: CostGroup; readonly since: number },
): Promise<Costs> {
  const spentContext = createSpentContext(context)
  const parts: CostPart[] = []
  for await (const run of readAllRuns(context.client))
    for (const cost of await readCostsOf(spentContext, run, { since, areDaysAsked: by === 'day' }))
      parts.push(...partsOf(cost, by, spentContext.dayOf))
  return { sums: groupParts(parts), total: sumOf(TOTAL, parts), unpriced: parts.filter(isUnpriced) }
}

/** Names the row where all of them are in one. */
function describeUnpriced(parts: readonly CostPart[]): string {
  const count = new Set(parts.map(({ run }) => run.id)).size
  const [row, ...others] = new Set(parts.map(({ key }) => key))
  const runs = `${count} ${count === 1 ? 'run' : 'runs'}${others.length === 0 ? ` of ${row}` : ''}`
  return `(${runs} ${count === 1 ? 'reports tokens only and is' : 'report tokens only and are'} not in COST)`
}

function costColumns(by: CostGroup): TableColumn<CostSum>[] {
  return [
    {
      heading: by.toUpperCase(),
      cell: ({ key }) => (by === 'agent' ? agentName(key) : key),
      shrinksTo: 10,
      shrinks: 'middle',
    },
    { heading: 'RUNS', cell: ({ runs }) => String(runs), align: 'right' },
    {
      heading: 'TOKENS IN',
      cell: (sum) => formatTokens(tokensRead(costOf(sum))),
      plain: (sum) => String(tokensRead(costOf(sum))),
      align: 'right',
      givesWay: 2,
    },
    {
      heading: 'TOKENS OUT',
      cell: ({ outputTokens }) => formatTokens(outputTokens),
      plain: ({ outputTokens }) => String(outputTokens),
      align: 'right',
      givesWay: 1,
    },
    { heading: 'COST', cell: formatSum, plain: ({ costUsd }) => String(costUsd ?? '-'), align: 'right' },
    {
      heading: 'ESTIMATED',
      cell: ({ estimatedUsd }) =>
        estimatedUsd === undefined
          ? '-'
          : formatCost({ ...NO_TOKENS, costUsd: estimatedUsd, estimated: false }),
      plain: ({ estimatedUsd }) => String(estimatedUsd ?? '-'),
      align: 'right',
    },
  ]
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 }

const costOf = (sum: CostSum) => ({ ...sum, estimated: sum.estimatedUsd !== undefined })

/** The tokens stand beside the amount, so an unknown amount is `-`. */
const formatSum = (sum: CostSum): string => (sum.costUsd === undefined ? '-' : formatCost(costOf(sum)))
