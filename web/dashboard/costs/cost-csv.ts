/** The costs of a range as a table of comma-separated values: a line for each day and group. */
import { groupParts, partsOf } from '../../../client/cost-sums.ts'
import type { SpentCost } from '../../../client/spent-costs.ts'
import { dayOfInstant } from '../../text/days.ts'
import type { ReportGroup } from './cost-report.ts'

const FIGURES = [
  'runs',
  'inputTokens',
  'outputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'costUsd',
  'estimatedUsd',
] as const
const SEPARATOR = '\u0000'

export function costCsv(spent: readonly SpentCost[], by: ReportGroup): string {
  const parts = spent
    .flatMap((cost) => partsOf(cost, by, dayOfInstant))
    .map((part) => ({ ...part, key: `${dayOfInstant(part.at)}${SEPARATOR}${part.key}` }))
  const lines = groupParts(parts).map((sum) => {
    const [day = '', key = ''] = sum.key.split(SEPARATOR)
    return [day, key, ...FIGURES.map((figure) => String(sum[figure] ?? ''))]
  })
  return [['day', by, ...FIGURES], ...lines].map((cells) => `${cells.map(cellOf).join(',')}\r\n`).join('')
}

/** A spreadsheet would compute a text that begins like a formula, and names come from trackers and agents. */
function cellOf(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && text !== '-' ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
