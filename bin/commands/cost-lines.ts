/** The costs of one run: a line for each model of each execution, and their sum where there are several. */
import { agentName } from '../../client/agent-names.ts'
import type { CostEntry, CostModelUsage } from '../../protocol/cost.ts'
import type { Run } from '../../protocol/run.ts'
import { formatCost, formatTokens, type ShownCost, tokensRead } from '../output/amounts.ts'
import type { StyledStream } from '../output/styled-stream.ts'
import { columnsOf, padEnd, padStart } from '../output/text-width.ts'

const NAME_COLUMNS = 11
const GAP = '  '
const LABEL_COLUMNS_MIN = 4

/** `run  agentA  sonnet  1.9M in  29k out  $1.84, reported`, aligned. */
export function costLines(stdout: StyledStream, { costs, costTotals }: Run): string[] {
  const rows = costs.flatMap(rowsOf)
  if (rows.length > 1 && costTotals !== undefined)
    rows.push(['total', '', '', ...tokensOf(costTotals), amountOf(costTotals)])
  const whole = rows.map((row) => row.map((cell) => stdout.clean(cell)))
  const lines = alignRows(whole)
  // The amount matters most, so the tokens give way to it.
  const isWide = stdout.isTerminal && lines.some((line) => columnsOf(line) > stdout.width)
  return isWide ? alignRows(whole.map((row) => row.with(3, '').with(4, ''))) : lines
}

function alignRows(cells: readonly (readonly string[])[]): string[] {
  const widths = (cells[0] ?? []).map((_, at) =>
    Math.max(at === 0 ? LABEL_COLUMNS_MIN : 0, ...cells.map((row) => columnsOf(row[at] ?? ''))),
  )
  return cells.map((row, at) => {
    const aligned = row
      .map((cell, column) => alignCell(cell, column, widths[column] ?? 0))
      .filter((_, column) => widths[column] !== 0)
    return `${(at === 0 ? 'costs' : '').padEnd(NAME_COLUMNS)}${aligned.join(GAP)}`.trimEnd()
  })
}

/** Token counts end at one column, so that a larger one is seen. */
const alignCell = (cell: string, column: number, width: number): string =>
  column === 3 || column === 4 ? padStart(cell, width) : padEnd(cell, width)

function rowsOf(entry: CostEntry): string[][] {
  const { label, provider, model, estimated, breakdown = [] } = entry
  const source = entry.source ?? (estimated ? 'estimated' : 'reported')
  const parts: readonly (Omit<CostModelUsage, 'model'> & { readonly model?: string | undefined })[] =
    breakdown.length === 0 ? [{ ...entry, model }] : breakdown
  return parts.map((part) => {
    const amount = amountOf({ ...part, estimated })
    const billed = part.costUsd === undefined ? amount : `${amount}, ${source}`
    return [label, agentName(provider), part.model ?? '-', ...tokensOf(part), billed]
  })
}

type Tokens = Parameters<typeof tokensRead>[0]

const tokensOf = (part: Omit<Tokens, 'estimated'>): string[] => [
  `${formatTokens(tokensRead({ ...part, estimated: false }))} in`,
  `${formatTokens(part.outputTokens)} out`,
]

/** The tokens stand beside the amount, so an unknown amount is `-`. */
const amountOf = (cost: ShownCost): string => (cost.costUsd === undefined ? '-' : formatCost(cost))
