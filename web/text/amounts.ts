/** Counts, money, tokens and shares as the pages write them. */
import type { CostTotals } from '../../protocol/cost.ts'

const USD_MIN = 0.0001
const MINUS = '−'

const COUNT = new Intl.NumberFormat('en-US')

/** `1,284`. */
export const formatCount = (count: number): string => COUNT.format(count).replace('-', MINUS)

/** `1 run`, `2 runs`. */
export const countOf = (count: number, noun: string, plural = `${noun}s`): string =>
  `${formatCount(count)} ${count === 1 ? noun : plural}`

/** `$1.84`; four digits below one cent; `~` before an estimate; unknown is `–`. */
export function formatMoney(cost: Pick<CostTotals, 'costUsd' | 'estimated'> | undefined): string {
  if (cost?.costUsd === undefined) return '–'
  const text = formatUsd(cost.costUsd)
  return cost.estimated && !text.startsWith('<') ? `~${text}` : text
}

/** The amount of a sum. It says its estimated share elsewhere, so only a sum without a billed part has the mark. */
export const formatSum = ({ costUsd, estimatedUsd }: EstimatedSum): string =>
  formatMoney(costUsd === undefined ? undefined : { costUsd, estimated: costUsd === estimatedUsd })

interface EstimatedSum {
  readonly costUsd?: number
  /** The part of `costUsd` that was computed, not billed. */
  readonly estimatedUsd?: number
}

/** An amount that would be read as nothing is `<$0.0001`. */
export function formatUsd(usd: number): string {
  if (usd > 0 && usd < USD_MIN / 2) return `<$${USD_MIN}`
  const digits = usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2
  const text = Math.abs(usd).toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  return `${usd < 0 ? MINUS : ''}$${text}`
}

/** `812`, `38.4 k`, `1.21 M`. */
export function formatTokens(count: number): string {
  if (count < 1_000) return String(count)
  if (count < 999_500) return `${threeDigits(count / 1e3)} k`
  return count < 999.5e6 ? `${threeDigits(count / 1e6)} M` : `${threeDigits(count / 1e9)} G`
}

/** `86%`. */
export const formatShare = (share: number): string => `${Math.round(100 * share)}%`

const threeDigits = (amount: number): string =>
  amount >= 99.95 ? String(Math.round(amount)) : amount >= 9.995 ? amount.toFixed(1) : amount.toFixed(2)
