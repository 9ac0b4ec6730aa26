/** `replaceInOrder` keeps an ordered list in its order. */

/**
 * Returns an ordered list with some items removed and others added. `ordered` is left as it is, and holds every removed
 * item.
 */
export function replaceInOrder<T>(
  ordered: readonly T[],
  { removed, added }: { readonly removed: readonly T[]; readonly added: readonly T[] },
  compare: (a: T, b: T) => number,
): readonly T[] {
  if ((removed.length + added.length) * FEW_OF > ordered.length) {
    const gone = new Set(removed)
    return [...ordered.filter((item) => !gone.has(item)), ...added].sort(compare)
  }
  const items = [...ordered]
  for (const item of removed) items.splice(placeOf(item, items, compare), 1)
  for (const item of added) items.splice(placeOf(item, items, compare), 0, item)
  return items
}

/** Few items, this often in the whole list, are cheaper to place one by one than by sorting. */
const FEW_OF = 16

/** Returns the index of the first item that does not come before this one. */
function placeOf<T>(item: T, ordered: readonly T[], compare: (a: T, b: T) => number): number {
  let from = 0
  let until = ordered.length
  while (from < until) {
    const middle = (from + until) >> 1
    if (compare(ordered[middle] as T, item) < 0) from = middle + 1
    else until = middle
  }
  return from
}
