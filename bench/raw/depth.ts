/** How deep requests waited for each other, told from when each of them began and was over. */
export interface Span {
  readonly from: number
  readonly to: number
}

/**
 * The longest chain in which each began when the one before it was over: so many round trips somebody waited, at least.
 *
 * In the order of their ends, the one that is over first is always the best to go on from.
 */
export function depthOf(spans: readonly Span[]): number {
  let depth = 0
  let over = Number.NEGATIVE_INFINITY
  for (const { from, to } of [...spans].sort((a, b) => a.to - b.to)) {
    if (from < over) continue
    depth += 1
    over = to
  }
  return depth
}
