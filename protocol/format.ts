/** Durations and money as commands and pages write them for people. */
import type { CostTotals } from './cost.ts'

/**
 * Writes whole seconds in two units at most: `12s`, `3m20s`, `1h05m`, `3d4h`.
 *
 * @param space between amounts and units; pages write `1 h 05 m`
 */
export function formatSeconds(seconds: number, space = ''): string {
  const write = (...parts: readonly (number | string)[]) => parts.join(space)
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  if (minutes < 1) return write(seconds, 's')
  if (hours < 1) return write(minutes, 'm', twoDigits(seconds % 60), 's')
  if (hours < 24) return write(hours, 'h', twoDigits(minutes % 60), 'm')
  return write(Math.floor(hours / 24), 'd', hours % 24, 'h')
}

/** Writes how long something took, rounded to the last shown unit: `0.4s`, `12s`, `3m20s`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))}s`
  const whole = Math.round(seconds)
  const step = whole < 3_600 ? 1 : whole < 86_370 ? 60 : 3_600
  return formatSeconds(Math.round(whole / step) * step)
}

const twoDigits = (value: number): string => String(value).padStart(2, '0')

const USD_MIN = 0.0001

/** `$1.84`; four digits below one cent; unknown is `–`. `~` stands before an amount of which any part is estimated. */
export function formatMoney(cost: Pick<CostTotals, 'costUsd' | 'estimated'> | undefined): string {
  if (cost?.costUsd === undefined) return '–'
  const text = formatUsd(cost.costUsd)
  return cost.estimated && !text.startsWith('<') ? `~${text}` : text
}

/** An amount that would be read as nothing is `<$0.0001`. */
export function formatUsd(usd: number): string {
  if (usd > 0 && usd < USD_MIN / 2) return `<$${USD_MIN}`
  const digits = usd !== 0 && Math.abs(usd) < 0.01 ? 4 : 2
  const text = Math.abs(usd).toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  return `${usd < 0 ? '−' : ''}$${text}`
}
