/** Views of the runs that a person has named: the query of their address, kept by this browser. */
import { signal } from '@preact/signals'
import { keepText, readKeptText } from '../../kept-text.ts'

export type SavedViews = Readonly<Record<string, string>>

export const VIEW_NAME_CHARS_MAX = 60
export const VIEWS_MAX = 50

/** The views of a text that anybody at the browser may have changed; what is none is left out. */
export function viewsFrom(kept: string | null): SavedViews {
  try {
    const parsed: unknown = JSON.parse(kept ?? '{}')
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return {}
    const views = Object.entries(parsed).filter(
      (view): view is [string, string] => isName(view[0]) && typeof view[1] === 'string',
    )
    return Object.fromEntries(views.slice(0, VIEWS_MAX))
  } catch {
    return {}
  }
}

const isName = (name: string): boolean => name !== '' && name.length <= VIEW_NAME_CHARS_MAX

/** Why a view can't have this name; undefined when it can. */
export function whyNotSaved(name: string, views: SavedViews): string | undefined {
  if (name === '') return 'The name is missing.'
  if (!isName(name)) return `The name is too long: ${VIEW_NAME_CHARS_MAX} characters are the most.`
  const isFull = !Object.hasOwn(views, name) && Object.keys(views).length >= VIEWS_MAX
  return isFull ? `There are ${VIEWS_MAX} views already; delete one first.` : undefined
}

const KEY = 'switchyard.run-views'

export const savedViews = signal<SavedViews>(viewsFrom(readKeptText(KEY)))

/**
 * Throws where the browser keeps nothing.
 *
 * @param query undefined deletes the view
 */
export function changeView(name: string, query: string | undefined): void {
  const { [name]: _, ...others } = savedViews.value
  savedViews.value = query === undefined ? others : { ...others, [name]: query }
  if (!keepText(KEY, JSON.stringify(savedViews.value))) throw new Error('This browser does not keep it.')
}
