/** Dollars in a chart: `$0`, `$40`, `$1.5 k`, `$0.25`. */
export function shortUsd(usd: number): string {
  if (usd >= 1_000) return `$${Number((usd / 1_000).toFixed(1))} k`
  if (Number.isInteger(usd)) return `$${usd}`
  return `$${usd < 0.01 ? Number(usd.toFixed(4)) : usd.toFixed(2)}`
}
