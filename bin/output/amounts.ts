/** Formats money and tokens for people; unknown is `-`, never zero. */

import type { CostTotals } from '../../protocol/cost.ts'
import { formatMoney } from '../../protocol/format.ts'

/** The part of a run's costs that one amount shows. */
export type ShownCost = Omit<CostTotals, 'byModel'>

/** Dollars where they are known (`$1.84`, `~$0.0027`), otherwise the tokens (`1.2M tok`). */
export function formatCost(figures: ShownCost | undefined): string {
  if (figures === undefined) return '-'
  const { costUsd, estimated, outputTokens } = figures
  if (costUsd !== undefined) return formatMoney({ costUsd, estimated })
  return `${formatTokens(tokensRead(figures) + outputTokens)} tok`
}

/** All tokens that a model read, from a cache or not. */
export const tokensRead = ({ inputTokens, cacheReadTokens, cacheWriteTokens }: ShownCost): number =>
  inputTokens + cacheReadTokens + cacheWriteTokens

/** `812`, `8.1k`, `96k`, `1.2M`. */
export function formatTokens(count: number | undefined): string {
  if (count === undefined) return '-'
  if (count < 1_000) return String(count)
  if (count < 999_500) return `${threeDigits(count / 1e3, 1)}k`
  return count < 999.5e6 ? `${threeDigits(count / 1e6, 2)}M` : `${threeDigits(count / 1e9, 2)}G`
}

/** Formats an amount with one decimal when it has at most `wholeDigits` digits before the point. */
function threeDigits(amount: number, wholeDigits: number): string {
  const short = amount.toFixed(1)
  return short.length <= wholeDigits + 2 ? short : String(Math.round(amount))
}
