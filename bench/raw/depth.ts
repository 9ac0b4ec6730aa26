/** Computes how deep requests waited for each other, from their start and end times. */
export interface RequestSpan {
  readonly from: number
  readonly to: number
}

/**
 * The longest chain in which each request began after the previous one ended: the minimum number of round trips
 * that the client waited for.
 *
 * In the order of their ends, the request that ends first is always the best one to continue from.
 */
export function depthOf(spans: readonly RequestSpan[]): number {
  let depth = 0
  let over = Number.NEGATIVE_INFINITY
  for (const { from, to } of [...spans].sort((a, b) => a.to - b.to)) {
    if (from < over) continue
    depth += 1
    over = to
  }
  return depth
}
