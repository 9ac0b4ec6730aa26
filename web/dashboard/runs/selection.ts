/** The runs that a person has marked for one act on all of them, and the run that keys have reached. */
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

/** The row of the overview that a person has reached by keys. */
export const chosenRun = signal<string | undefined>(undefined)

/** The class of a row besides its own. */
export const chosenClass = (id: string): string => (chosenRun.value === id ? ' chosen' : '')
