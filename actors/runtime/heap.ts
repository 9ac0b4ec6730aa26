/**
 * A binary heap in a plain array: the first entry by `isBefore` is always at index 0.
 *
 * The owner keeps the array, because each owner leaves cancelled entries in it and drops them in its own way.
 */
export type IsBefore<T> = (a: T, b: T) => boolean

export function pushToHeap<T>(heap: T[], entry: T, isBefore: IsBefore<T>): void {
  let at = heap.push(entry) - 1
  while (at > 0) {
    const parentIndex = (at - 1) >> 1
    const parent = heap[parentIndex] as T
    if (!isBefore(entry, parent)) break
    heap[at] = parent
    at = parentIndex
  }
  heap[at] = entry
}

/** Removes the first entry. */
export function popFromHeap<T>(heap: T[], isBefore: IsBefore<T>): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  for (;;) {
    const left = at * 2 + 1
    if (left >= heap.length) break
    const right = left + 1
    const least = right < heap.length && isBefore(heap[right] as T, heap[left] as T) ? right : left
    if (!isBefore(heap[least] as T, last)) break
    heap[at] = heap[least] as T
    at = least
  }
  heap[at] = last
}
