/** Counts, sums, tokens and shares as the pages write them. */
import { formatMoney } from '../../protocol/format.ts'

const COUNT = new Intl.NumberFormat('en-US')

/** `1,284`. */
export const formatCount = (count: number): string => COUNT.format(count).replace('-', '−')

/** `1 run`, `2 runs`. */
export const countOf = (count: number, noun: string, plural = `${noun}s`): string =>
  `${formatCount(count)} ${count === 1 ? noun : plural}`

/** The amount of a sum. It says its estimated share elsewhere, so only a sum without a billed part has the mark. */
export const formatSum = ({ costUsd, estimatedUsd }: EstimatedSum): string =>
  formatMoney(costUsd === undefined ? undefined : { costUsd, estimated: costUsd === estimatedUsd })

interface EstimatedSum {
  readonly costUsd?: number
  /** The part of `costUsd` that was computed, not billed. */
  readonly estimatedUsd?: number
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
