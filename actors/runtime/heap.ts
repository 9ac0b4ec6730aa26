/**
 * A binary heap in a plain array: the first by `before` is always at its head.
 *
 * Its owners keep the array themselves, because each of them leaves dead entries in it and sweeps them out in its own
 * way.
 */
export type Before<T> = (a: T, b: T) => boolean

export function pushOn<T>(heap: T[], entry: T, before: Before<T>): void {
  let at = heap.push(entry) - 1
  while (at > 0) {
    const above = (at - 1) >> 1
    const parent = heap[above] as T
    if (!before(entry, parent)) break
    heap[at] = parent
    at = above
  }
  heap[at] = entry
}

/** Takes the head off. */
export function popFrom<T>(heap: T[], before: Before<T>): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  for (;;) {
    const left = at * 2 + 1
    if (left >= heap.length) break
    const right = left + 1
    const least = right < heap.length && before(heap[right] as T, heap[left] as T) ? right : left
    if (!before(heap[least] as T, last)) break
    heap[at] = heap[least] as T
    at = least
  }
  heap[at] = last
}
