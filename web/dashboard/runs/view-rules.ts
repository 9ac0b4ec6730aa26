/** The rules of saved views: their shape, their names and their number. */
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
