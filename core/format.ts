/** Formats amounts of money and durations for people. */

/**
 * Formats an amount of money for people: `$1.84`, below one cent with four digits, and `~` in front when any part of it is
 * estimated.
 */
export function formatUsd({
  costUsd,
  estimated,
}: {
  readonly costUsd: number
  readonly estimated: boolean
}): string {
  return `${estimated ? '~' : ''}$${costUsd.toFixed(costUsd !== 0 && costUsd < 0.01 ? 4 : 2)}`
}

/** Formats a duration for people, in at most two units and without a space: `0.4s`, `12s`, `3m20s`, `1h05m`, `3d4h`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))}s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole}s`
  if (whole < 3_600) return `${Math.floor(whole / 60)}m${twoDigits(whole % 60)}s`
  const minutes = Math.round(whole / 60)
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${twoDigits(minutes % 60)}m`
  const hours = Math.round(minutes / 60)
  return `${Math.floor(hours / 24)}d${hours % 24}h`
}

const twoDigits = (value: number): string => String(value).padStart(2, '0')
