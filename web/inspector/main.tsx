/** Starts the inspector: signs in, draws, and fills the model from the story that is served or from the host's socket. */

import { batch, effect } from '@preact/signals'
import { render } from 'preact'
import { createBrowserConnection } from '../../client/browser.ts'
import { InspectFeed } from '../../client/host-feed.ts'
import type { InspectFrame, StoryLine } from '../../protocol/inspection.ts'
import { startKeys } from '../elements/acts.ts'
import { startClock } from '../elements/moments.tsx'
import { createFrameBatch } from '../frame-batch.ts'
import { changeQuery, startRouter } from '../router.ts'
import { signIn } from '../session.ts'
import { loadCharts } from './charts.ts'
import { actorToOpen, applyFrame, modelOfStory } from './model.ts'
import { InspectorPage } from './page.tsx'
import {
  actorsVersion,
  chosenActorId,
  cursor,
  followed,
  modelInPlace,
  replaceModel,
  source,
  version,
} from './state.ts'

const UNAUTHORIZED = 401
const STORY_TYPE = 'application/x-ndjson'
const RETRY_MS = 1_000

async function startFeed(): Promise<void> {
  const response = await fetch('/story').catch(() => undefined)
  if (response?.status === UNAUTHORIZED) source.value = { is: 'signed-out' }
  // Without a story, the page itself answers for every path.
  else if (response?.headers.get('content-type') === STORY_TYPE) openStory(await response.text())
  else openFeed()
}

function openStory(text: string): void {
  // The command that serves the story has checked every line.
  const lines = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as StoryLine)
  const head = lines.find((line) => 'story' in line)
  if (head === undefined) source.value = { is: 'failed', reason: 'The story has no first line.' }
  else {
    replaceModel(modelOfStory(lines))
    cursor.value = modelInPlace().lastN
    source.value = { is: 'story', head, isWhole: lines.some((line) => 'end' in line) }
    openLatest()
  }
}

/** A page that names no actor begins at what happened last. */
function openLatest(): void {
  const model = modelInPlace()
  const latest = chosenActorId.value === '' && model.isComplete ? actorToOpen(model) : undefined
  if (latest !== undefined) changeQuery({ actor: latest.id })
}

const connection = createBrowserConnection({
  fetch: (...request) => fetch(...request),
  WebSocket,
  origin: location.origin,
})

const batched = createFrameBatch<InspectFrame>(applyFrames)

function openFeed(): void {
  const feed = new InspectFeed(connection, {
    onFrame: batched.receive,
    onLive() {
      source.value = { is: 'live' }
    },
    onLost: (reason) => onLost(reason),
    onEnd(error) {
      stopFollowing()
      onLost(error.message)
      void checkSession().then(() => {
        if (source.value.is !== 'signed-out') setTimeout(openFeed, RETRY_MS)
      })
    },
  })
  const stopFollowing = effect(() => feed.follow({ actors: [...followed.value] }))
}

function onLost(reason: string): void {
  if (source.value.is !== 'reconnecting') source.value = { is: 'reconnecting', since: Date.now(), reason }
  void checkSession()
}

/** A browser does not say why a socket was refused, so a request asks. */
async function checkSession(): Promise<void> {
  const response = await fetch('/api/health').catch(() => undefined)
  if (response?.status === UNAUTHORIZED) source.value = { is: 'signed-out' }
}

function applyFrames(frames: readonly InspectFrame[]): void {
  const model = modelInPlace()
  for (const frame of frames) applyFrame(model, frame)
  batch(() => {
    if (frames.some(({ type }) => type === 'inspect-actors' || type === 'inspect-hello'))
      actorsVersion.value += 1
    version.value += 1
    openLatest()
  })
}

// ---- the start ------------------------------------------------------------------------------------------------------

startRouter()
startKeys(() => true)
startClock(() => source.value.is === 'reconnecting')

// The chart of the first actor does not wait for the list of all.
loadCharts().catch(() => {})
await signIn()
// The first answer comes while the page draws.
const feed = startFeed()
render(<InspectorPage />, document.body)
await feed
