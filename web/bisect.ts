/** How many of the sorted things stand before the one that is looked for. @param isBefore true for those, then false */
export function bisect(count: number, isBefore: (at: number) => boolean): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isBefore(middle)) low = middle + 1
    else high = middle
  }
  return low
}
