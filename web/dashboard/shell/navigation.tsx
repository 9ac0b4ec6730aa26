/** The navigation: at the side, or as a line above and a bar below on narrow screens. */
import { Icon } from '../../elements/icon.tsx'
import { now } from '../../elements/moments.tsx'
import { address } from '../../router.ts'
import { formatCount } from '../../text/amounts.ts'
import { ageOf, formatShortAge } from '../../text/times.ts'
import { findPage } from '../pages.ts'
import { live } from '../state/live.ts'
import { config, health, isLoaded, tracker } from '../state/records.ts'
import { trackerName } from '../tracker-words.ts'
import { openPalette } from './palette.tsx'
import { type NavigationPlace, PLACES } from './places.ts'

export function Navigation() {
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

const WORDS = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  'signed-out': 'Signed out',
}

/** The dot has a shape of its own for each state: disc, ring, triangle. */
function Connection() {
  const { state } = live.value
  const polled = ageOf(tracker.value.lastPollAt, now.value)
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
        <div class="word">
          {tracker.value.state === 'connected'
            ? `${trackerName(config.value?.tracker.driver)} polled ${polled === undefined ? 'never' : `${formatShortAge(polled)} ago`}`
            : `Tracker ${tracker.value.state}`}
        </div>
      )}
    </div>
  )
}
