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
