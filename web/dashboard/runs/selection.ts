/** Runs that a person has marked for one act on all of them. */
import { signal } from '@preact/signals'

export const marked = signal<ReadonlySet<string>>(new Set())

export function toggleMark(id: string): void {
  const next = new Set(marked.value)
  if (!next.delete(id)) next.add(id)
  marked.value = next
}

export function mark(ids: Iterable<string>): void {
  marked.value = new Set([...marked.value, ...ids])
}

export function unmarkAll(): void {
  marked.value = new Set()
}
