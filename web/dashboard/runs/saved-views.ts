/** Views of the runs that a person has named: the query of their address, kept by this browser. */
import { signal } from '@preact/signals'
import { type SavedViews, viewsFrom } from './view-rules.ts'

const KEY = 'switchyard.run-views'

function readViews(): SavedViews {
  try {
    return viewsFrom(localStorage.getItem(KEY))
  } catch {
    return {}
  }
}

export const savedViews = signal<SavedViews>(readViews())

/** @param query undefined deletes the view */
export function changeView(name: string, query: string | undefined): void {
  const { [name]: _, ...others } = savedViews.value
  savedViews.value = query === undefined ? others : { ...others, [name]: query }
  localStorage.setItem(KEY, JSON.stringify(savedViews.value))
}
