/** The inspector's page: actors, chart, events and sequence; on narrow screens one of them at a time. */
import { useEffect } from 'preact/hooks'
import { useActs } from '../elements/acts.ts'
import { Button } from '../elements/button.tsx'
import { Dialogs } from '../elements/dialog.tsx'
import { Segments } from '../elements/field.tsx'
import { showKeys } from '../elements/key-help.tsx'
import { Toasts } from '../elements/toast.tsx'
import { changeQuery } from '../router.ts'
import { formatClock } from '../text/times.ts'
import { ActorList, chooseNext } from './actor-list.tsx'
import { ActorView } from './actor-view.tsx'
import { clockWithMs } from './causes.ts'
import { EventList } from './event-list.tsx'
import { SequenceView } from './sequence-view.tsx'
import {
  actorsVersion,
  chosenActorId,
  cursor,
  modelInPlace,
  recordsOfLanes,
  search,
  source,
  step,
  TABS,
  tab,
  togglePause,
  version,
} from './state.ts'

const GROUP = 'This page'
const SEARCH_ID = 'find-actor'

export function InspectorPage() {
  useActs([
    { id: 'pause', title: 'Pause, or go on live', group: GROUP, keys: 'Space', act: togglePause },
    { id: 'keys', title: 'Show the keys of this page', group: GROUP, keys: '?', act: () => showKeys() },
    { id: 'back', title: 'One event back', group: GROUP, keys: ',', act: () => step(-1) },
    { id: 'on', title: 'One event on', group: GROUP, keys: '.', act: () => step(1) },
    { id: 'next', title: 'Next actor', group: GROUP, keys: 'j', act: () => chooseNext(1) },
    { id: 'previous', title: 'Previous actor', group: GROUP, keys: 'k', act: () => chooseNext(-1) },
    {
      id: 'find',
      title: 'Find an actor',
      group: GROUP,
      keys: '/',
      act: () => document.getElementById(SEARCH_ID)?.focus(),
    },
  ])
  if (source.value.is === 'signed-out') return <SignedOut />
  // A narrow screen begins with the list, where no actor has been chosen.
  const part = tab.value === 'chart' && chosenActorId.value === '' ? 'actors' : tab.value
  return (
    <div class="inspector" data-tab={part}>
      <Head />
      <nav class="tabs" aria-label="Parts of the page">
        <Segments
          label="Part of the page"
          value={part}
          options={TABS}
          choose={(chosen) => {
            tab.value = chosen
          }}
        />
      </nav>
      <main class="parts" id="main">
        <ActorList />
        <section class="actor" aria-label="Chosen actor">
          <ActorView />
        </section>
        <EventList />
        <SequenceView />
      </main>
      <Dialogs />
      <Toasts />
    </div>
  )
}

function Head() {
  void actorsVersion.value
  const { actors, announced, isComplete } = modelInPlace()
  const count = isComplete ? actors.size : announced
  useEffect(() => {
    document.title = `${count.toLocaleString('en')} actors · switchyard inspector`
  }, [count])
  return (
    <header class={`head${cursor.value === undefined || source.value.is === 'story' ? '' : ' past'}`}>
      <a class="brand" href="/">
        <svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M1.5 8h3l4-4.5h6M4.5 8l4 4.5h6" />
        </svg>
        switchyard
      </a>
      <h1 class="quiet page-name">Inspector</h1>
      <input
        id={SEARCH_ID}
        type="search"
        aria-label="Find an actor"
        placeholder={`Find one of ${count.toLocaleString('en')} actors`}
        value={search.value}
        onInput={({ currentTarget }) => changeQuery({ q: currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur()
          if (event.key === 'Enter') chooseNext(1)
        }}
      />
      <span class="grow" />
      <Status />
      {source.value.is !== 'story' && (
        <Button small act={togglePause} pressed={cursor.value !== undefined}>
          {cursor.value === undefined ? 'Pause' : 'Back to live'} <kbd>Space</kbd>
        </Button>
      )}
    </header>
  )
}

/** The instant of the newest event that counts. */
function pausedAt(): string {
  const record = recordsOfLanes().findLast(({ n }) => n <= (cursor.value ?? n))
  return record === undefined ? '' : ` at ${clockWithMs(record.at)}`
}

function Status() {
  void version.value
  const present = source.value
  switch (present.is) {
    case 'live':
      return cursor.value === undefined ? (
        <span>
          <span class="dot tone-good" aria-hidden="true">
            ●
          </span>{' '}
          Live
        </span>
      ) : (
        <span class="tone-warn" role="status">
          Paused{pausedAt()}
        </span>
      )
    case 'reconnecting':
      return (
        <span class="tone-warn" role="status">
          Reconnecting. What you see is from {formatClock(present.since)}.
        </span>
      )
    case 'story':
      return (
        <span>
          A story of {present.head.source === 'simulation' ? present.head.title : 'a host'}, recorded{' '}
          {new Date(present.head.at).toLocaleString()}
        </span>
      )
    case 'failed':
      return <span class="tone-bad">{present.reason}</span>
    default:
      return <span class="quiet">Connecting…</span>
  }
}

function SignedOut() {
  return (
    <main class="signed-out" id="main">
      <h1>This browser is not signed in</h1>
      <p>
        The link that opened this page was used before, or is too old, or the inspector was started again. Run
        this in a terminal of the machine that the host runs on, and open the link that it prints:
      </p>
      <pre>switchyard inspect</pre>
    </main>
  )
}
