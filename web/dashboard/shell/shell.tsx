/** The frame of every page: navigation, the state of the connection, the page itself, dialogs and toasts. */
import { useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { useActs } from '../../elements/acts.ts'
import { Dialogs } from '../../elements/dialog.tsx'
import { PageHead } from '../../elements/page-head.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { Toasts } from '../../elements/toast.tsx'
import { address, navigate } from '../../router.ts'
import { loadPageStyles } from '../page-styles.ts'
import { findPage, type PageProps } from '../pages.ts'
import { live } from '../state/live.ts'
import { Navigation } from './navigation.tsx'
import { openPalette } from './palette.tsx'
import { PLACES } from './places.ts'
import { SignedOut } from './signed-out.tsx'
import { StaleBanner } from './stale-banner.tsx'
import { startRun } from './start-run.ts'
import { useTitle } from './title.ts'

const PAGE = 'This page'
/** Kept by the tab from the moment at which it loads itself again until a page could be loaded. */
const RELOADED = 'switchyard.reloaded'

export function Shell() {
  useActs([
    ...PLACES.map(({ name, title, to, keys }) => ({
      id: `go ${name}`,
      title,
      group: 'Go to',
      keys,
      act: () => navigate(to),
    })),
    { id: 'start run', title: 'Start a run from words', group: PAGE, keys: 'n', act: startRun },
    {
      id: 'palette',
      title: 'Search or act',
      group: PAGE,
      keys: 'Ctrl k',
      evenInFields: true,
      act: openPalette,
    },
    { id: 'keys', title: 'Show the keys of this page', group: PAGE, keys: '?', act: showPageKeys },
  ])
  useTitle()
  if (live.value.state === 'signed-out') return <SignedOut />
  return (
    <div class="shell">
      <Navigation />
      <main class="main" id="main">
        <StaleBanner />
        <CurrentPage />
      </main>
      <Dialogs />
      <Toasts />
    </div>
  )
}

const showPageKeys = async () => (await import('./page-keys.tsx')).showPageKeys()

function CurrentPage() {
  const { path } = address.value
  const found = findPage(path)
  const pattern = found?.route.pattern
  const page = useSignal<{ readonly pattern: string; readonly Page: ComponentType<PageProps> } | undefined>(
    undefined,
  )
  const error = useSignal<unknown>(undefined)
  useEffect(() => {
    error.value = undefined
    if (found === undefined) return undefined
    let isCurrent = true
    const styles = found.route.isInFirstLoad === true ? undefined : loadPageStyles()
    Promise.all([found.route.load(), styles]).then(
      ([Page]) => {
        if (styles !== undefined) sessionStorage.removeItem(RELOADED)
        if (isCurrent) page.value = { pattern: found.route.pattern, Page }
      },
      (failure: unknown) => {
        if (isCurrent) error.value = failure
      },
    )
    return () => {
      isCurrent = false
    }
  }, [pattern])
  if (found === undefined) return <NoPage path={path} />
  if (error.value !== undefined) return <LoadFailure error={error.value} />
  if (page.value?.pattern !== pattern || page.value === undefined) return <Skeleton rows={6} />
  const { Page } = page.value
  return <Page key={path} params={found.params} />
}

/** A browser keeps the failure of an import until the document is loaded again. */
function LoadFailure({ error }: { readonly error: unknown }) {
  const isLive = live.value.state === 'live'
  useEffect(() => {
    // A document that was loaded again and fails in the same way is left to the person.
    if (!isLive || sessionStorage.getItem(RELOADED) !== null) return
    sessionStorage.setItem(RELOADED, '')
    location.reload()
  }, [isLive])
  return <Failure error={error} retry={() => location.reload()} />
}

function NoPage({ path }: { readonly path: string }) {
  return (
    <>
      <PageHead title="No such page" />
      <p>
        Nothing is at <code>{path}</code>. <a href="/">Go to the overview</a>
      </p>
    </>
  )
}
