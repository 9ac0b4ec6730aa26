/**
 * The address of the page: its path and its query, which holds every filter.
 *
 * Links are ordinary links. A click on a link to this origin changes the address without loading the page again; a
 * click with a modifier, a download, a link to another place and one to a part of the page are left to the browser.
 */
import { signal } from '@preact/signals'

export interface PageAddress {
  readonly path: string
  readonly query: URLSearchParams
  /** The fragment without its `#`. */
  readonly fragment: string
}

const readAddress = (): PageAddress => ({
  path: location.pathname,
  query: new URLSearchParams(location.search),
  fragment: location.hash.slice(1),
})

export const address = signal<PageAddress>(readAddress())

let keepOffsets = (): void => {}

export interface NavigateOptions {
  /** The new address takes the place of this one in the history, as filters do. */
  readonly replace?: boolean
}

export function navigate(to: string, { replace = false }: NavigateOptions = {}): void {
  if (replace) history.replaceState(history.state, '', to)
  else {
    keepOffsets()
    // An entry with offsets is one of this page's own; the browser places the others.
    history.pushState({ offsets: {} }, '', to)
  }
  const isSamePath = location.pathname === address.value.path
  address.value = readAddress()
  if (!isSamePath) scrollTo(0, 0)
}

/** Changes single parameters of the query; undefined and an empty text remove one. */
export function changeQuery(
  changes: Readonly<Record<string, string | undefined>>,
  options: NavigateOptions = { replace: true },
): void {
  const { path, fragment } = address.value
  const query = new URLSearchParams(address.value.query)
  for (const [key, value] of Object.entries(changes))
    if (value === undefined || value === '') query.delete(key)
    else query.set(key, value)
  navigate(addressText({ path, query, fragment }), options)
}

export function addressText({ path, query, fragment }: PageAddress): string {
  const asked = query.toString()
  return `${path}${asked === '' ? '' : `?${asked}`}${fragment === '' ? '' : `#${fragment}`}`
}

/** Takes over clicks on links and the browser's back and forward. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    address.value = readAddress()
  })
  startOffsets().catch(() => {})
  document.addEventListener('click', (event) => {
    const link = linkOf(event)
    if (link === undefined) return
    event.preventDefault()
    navigate(link.pathname + link.search + link.hash)
  })
}

/** The first drawing does without the offsets, and so does a page that cannot load them. */
async function startOffsets(): Promise<void> {
  const offsets = await import('./scroll-offsets.ts')
  offsets.startScrollOffsets()
  keepOffsets = offsets.keepOffsets
}

function linkOf(event: MouseEvent): HTMLAnchorElement | undefined {
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey
  if (!isPlain || event.defaultPrevented || !(event.target instanceof Element)) return undefined
  const link = event.target.closest('a')
  if (link === null || link.origin !== location.origin) return undefined
  // The browser also moves the focus to the part.
  if (link.getAttribute('href')?.startsWith('#') === true) return undefined
  if (link.hasAttribute('download') || (link.target !== '' && link.target !== '_self')) return undefined
  return link.pathname.startsWith('/api/') ? undefined : link
}
