/** The frame of every page: navigation, the state of the connection, the page itself, dialogs and toasts. */
import { effect, useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'
import { useActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { Dialogs } from '../../elements/dialog.tsx'
import { Glyph, Icon } from '../../elements/glyph.tsx'
import { now } from '../../elements/moments.tsx'
import { documentName, PageHead } from '../../elements/page-head.tsx'
import { Failure, Skeleton } from '../../elements/placeholder.tsx'
import { Toasts } from '../../elements/toast.tsx'
import { address, navigate } from '../../router.ts'
import { formatCount } from '../../text/amounts.ts'
import { formatClock, formatDuration } from '../../text/times.ts'
import { loadPageStyles } from '../page-styles.ts'
import { findPage, type PageProps } from '../pages.ts'
import { totals } from '../state/current-totals.ts'
import { live, tryNow } from '../state/live.ts'
import { config, health, isLoaded, tracker } from '../state/records.ts'
import { trackerSentence } from '../tracker-words.ts'
import { openPalette } from './palette.tsx'
import { type NavigationPlace, PLACES } from './places.ts'
import { startRun } from './start-run.ts'

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

// ---- navigation ----------------------------------------------------------------------------------------------------

/** The navigation: at the side, or as a line above and a bar below on narrow screens. */
function Navigation() {
  const current = findPage(address.value.path)?.route.place
  return (
    <>
      <a class="skip" href="#main">
        To the content
      </a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href="/" aria-label="switchyard">
          <Logo /> <span class="word">switchyard</span>
        </a>
        <button type="button" class="search-button" aria-label="Search or act Ctrl K" onClick={openPalette}>
          <Icon name="search" /> <span class="word">Search or act</span> <kbd class="word">Ctrl K</kbd>
        </button>
        <ul>
          {PLACES.map((place) => (
            <li key={place.name} class={place.name === 'settings' ? 'parted' : ''}>
              <PlaceLink place={place} isCurrent={place.name === current} />
            </li>
          ))}
        </ul>
        <Connection />
      </nav>
      <nav class="bar-below" aria-label="Most used pages">
        {PLACES.filter(({ isInBar = false }) => isInBar).map((place) => (
          <PlaceLink key={place.name} place={place} isCurrent={place.name === current} />
        ))}
        <button type="button" class="place" onClick={openPalette}>
          <Icon name="more" /> <span class="word">More</span>
        </button>
      </nav>
    </>
  )
}

function PlaceLink({ place, isCurrent }: { readonly place: NavigationPlace; readonly isCurrent: boolean }) {
  const count = place.count?.() ?? 0
  return (
    <a class="place" href={place.to} aria-current={isCurrent ? 'page' : undefined} title={place.title}>
      <Icon name={place.icon} />
      <span class="word">{place.title}</span>
      {count > 0 && (
        <span class={`place-count${place.isUrgent ? ' urgent' : ''}`}>
          {place.isPartial?.() === true && '≥'}
          {formatCount(count)}
          {place.isUrgent && <span class="visually-hidden"> need you</span>}
        </span>
      )}
    </a>
  )
}

const Logo = () => (
  <svg class="logo" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
    <path d="M1 10h4l5-5.5h9M5 10l5 5.5h9" />
  </svg>
)

// ---- the connection ------------------------------------------------------------------------------------------------

const WORDS = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  'signed-out': 'Signed out',
}

/** The dot has a shape of its own for each state: disc, ring, triangle. */
function Connection() {
  const { state } = live.value
  return (
    <div class="connection">
      <div>
        <svg class={`dot ${state}`} viewBox="0 0 10 10" aria-hidden="true">
          {state === 'live' && <circle cx="5" cy="5" r="4" />}
          {(state === 'connecting' || state === 'reconnecting') && (
            <circle cx="5" cy="5" r="3.2" fill="none" stroke="currentColor" stroke-width="1.6" />
          )}
          {state === 'signed-out' && <path d="M5 1l4 8H1z" />}
        </svg>{' '}
        <strong>{WORDS[state]}</strong>
      </div>
      {health.value !== undefined && <div class="word">Host {health.value.version}</div>}
      {isLoaded.value && (
        <div class="word">{trackerSentence(config.value?.tracker.driver, tracker.value, now.value)}</div>
      )}
    </div>
  )
}

const SHOWN_AFTER_MS = 5_000
const TICK_MS = 500

/** Says how old the page is while there is no connection. Soon lost and found again, it is not worth a word. */
function StaleBanner() {
  const current = live.value
  const present = useSignal(Date.now())
  const isLost = current.state === 'reconnecting'
  useEffect(() => {
    if (!isLost) return undefined
    const timer = setInterval(() => {
      present.value = Date.now()
    }, TICK_MS)
    return () => clearInterval(timer)
  }, [isLost])
  if (current.state !== 'reconnecting') return null
  const age = present.value - current.since
  if (age < SHOWN_AFTER_MS) return null
  const pause = current.nextTryAt === undefined ? 0 : current.nextTryAt - present.value
  return (
    <div class="banner">
      <Glyph name="limit" />
      <span>
        <strong>Reconnecting.</strong>{' '}
        {isLoaded.value && `What you see is from ${formatClock(current.since)}, ${formatDuration(age)} ago. `}
        {pause > 0 ? `Trying again in ${formatDuration(pause + 999)}.` : 'Trying now.'}
      </span>
      <Button small act={tryNow}>
        Try now
      </Button>
    </div>
  )
}

/** Stands in the page's place while this browser is not signed in, and says how to get a link that is good. */
function SignedOut() {
  return (
    <main class="signed-out" id="main">
      <PageHead title="This browser is not signed in" />
      <p>
        The link that opened this page was used before, or is too old, or the dashboard was started again. Run
        this in a terminal of the machine that the host runs on, and open the link that it prints:
      </p>
      <pre>switchyard dashboard</pre>
    </main>
  )
}

// ---- the page's title ----------------------------------------------------------------------------------------------

/** Only installed apps have a badge, and not in every browser. */
interface BadgeNavigator {
  setAppBadge?(count: number): Promise<void>
}

/** The title of the document: the number of things that need a person, which the app's icon has too, and the page. */
function useTitle(): void {
  useEffect(
    () =>
      effect(() => {
        const count = totals.value.needsYou
        const place = findPage(address.value.path)?.route.place
        // A page that is still read has the name of its place.
        const title = documentName.value ?? PLACES.find(({ name }) => name === place)?.title ?? 'No such page'
        document.title = `${count > 0 ? `(${count}) ` : ''}${title} · switchyard`
        const app: BadgeNavigator = navigator
        app.setAppBadge?.(count).catch(() => {})
      }),
    [],
  )
}
