/**
 * The page's one dashboard socket: connecting, live, reconnecting, or signed out.
 *
 * Frames are applied once for each frame of the screen. A page that was asleep dials again, because its socket may be
 * dead without knowing it.
 */

import { signal } from '@preact/signals'
import { ChangesFeed } from '../../../client/dashboard-feed.ts'
import type { ChangesFrame, DashboardFrame } from '../../../protocol/dashboard.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { createFrameBatch } from '../../frame-batch.ts'
import { connection, host } from './host.ts'
import { applyFrames, attention, health, setAttention } from './records.ts'

export type LiveState =
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  /** `since`: the last moment at which the page was up to date; `nextTryAt`: absent during an attempt. */
  | {
      readonly state: 'reconnecting'
      readonly since: number
      readonly reason: string
      readonly nextTryAt?: number
    }
  | { readonly state: 'signed-out' }

export const live = signal<LiveState>({ state: 'connecting' })

/** Called with each frame that the page did not apply itself: events of runs and subscriptions. */
type FrameListener<F> = (frame: F) => void

const FIRST_RETRY_MS = 1_000
/** A timer that comes so late shows that the machine was asleep. */
const SLEEP_MS = 15_000
const WATCH_MS = 5_000
const UNAUTHORIZED = 401
/** Without a subscription the host would send the events of all runs. No run has this id. */
const NO_RUN = 'none'

let feed: ChangesFeed | undefined
let retry: ReturnType<typeof setTimeout> | undefined
/** When the page was last up to date, while it is not. */
let lostAt: number | undefined
const listeners = new Set<FrameListener<ChangesFrame>>()
const subscriptions = new Map<string, number>()
const batched = createFrameBatch<ChangesFrame>((frames) => {
  applyFrames(frames)
  for (const frame of frames) for (const listener of [...listeners]) listener(frame)
})

/** Receives the events of a run, and the answer to its subscription, until the returned function is called. */
export function watchRun(runId: string, onFrame: FrameListener<DashboardFrame>): () => void {
  const listener: FrameListener<ChangesFrame> = (frame) => {
    if (frame.type === 'runs-changed') {
      const run = frame.changed.find(({ id }) => id === runId)
      if (run !== undefined) onFrame({ type: 'run-updated', run })
    } else if (
      (frame.type === 'run-event' && (frame.event as RunEvent).runId === runId) ||
      (frame.type === 'subscribed' && frame.runId === runId)
    )
      onFrame(frame)
  }
  listeners.add(listener)
  const count = (subscriptions.get(runId) ?? 0) + 1
  subscriptions.set(runId, count)
  if (count === 1) feed?.subscribe(runId)
  return () => {
    listeners.delete(listener)
    const left = (subscriptions.get(runId) ?? 1) - 1
    if (left > 0) subscriptions.set(runId, left)
    else {
      subscriptions.delete(runId)
      feed?.unsubscribe(runId)
    }
  }
}

/** Receives every frame, such as the steps of a provisioning. */
export function watchFrames(onFrame: FrameListener<ChangesFrame>): () => void {
  listeners.add(onFrame)
  return () => void listeners.delete(onFrame)
}

/** Dials now: instead of after the pause, or because this browser has signed in. */
export function tryNow(): void {
  const current = live.value
  if (current.state === 'signed-out') live.value = { state: 'connecting' }
  else if (current.state === 'reconnecting')
    live.value = { state: 'reconnecting', since: current.since, reason: current.reason }
  if (feed === undefined) openFeed()
  else feed.redial()
}

export function startLive(): void {
  openFeed()
  let last = Date.now()
  setInterval(() => {
    const present = Date.now()
    if (present - last > SLEEP_MS) feed?.redial()
    last = present
  }, WATCH_MS)
  document.addEventListener('visibilitychange', () => {
    // A frame of the screen that these wait for would not come.
    if (document.hidden) batched.flush()
    else void askAgain()
  })
  addEventListener('focus', askAgain)
}

function openFeed(): void {
  clearTimeout(retry)
  // A person may have asked for it during the pause.
  if (feed !== undefined) return
  feed = new ChangesFeed(connection, {
    onFrame: batched.receive,
    onLive,
    onLost: (reason) => {
      lostAt = Date.now()
      live.value = { state: 'reconnecting', since: lostAt, reason }
    },
    onWait: (ms) => {
      if (live.value.state === 'reconnecting') live.value = { ...live.value, nextTryAt: Date.now() + ms }
      void checkSession()
    },
    onEnd: (error) => {
      feed = undefined
      if (live.value.state === 'connecting')
        live.value = { state: 'reconnecting', since: lostAt ?? Date.now(), reason: error.message }
      void checkSession().then(() => {
        if (live.value.state !== 'signed-out') retry = setTimeout(openFeed, FIRST_RETRY_MS)
      })
    },
  })
  feed.subscribe(NO_RUN)
  for (const runId of subscriptions.keys()) feed.subscribe(runId)
}

function onLive(): void {
  lostAt = undefined
  live.value = { state: 'live' }
  // A hello has neither.
  const before = attention.value
  host.readAttention().then((answer) => {
    // A list that was pushed meanwhile is newer than this one.
    if (attention.value === before) setAttention(answer)
  }, ignore)
  host.health().then((answer) => {
    health.value = answer
  }, ignore)
}

/** The socket's end says what is wrong; a request beside it does not need to. */
const ignore = (): void => {}

/**
 * A browser does not say why a socket was refused, so a request asks after each attempt: while the listener is down
 * nobody answers, and the next one may know nothing of this browser.
 */
async function checkSession(): Promise<void> {
  const asked = live.value
  // The answer to an earlier state says nothing about a browser that has signed in meanwhile.
  if ((await isSignedIn()) !== false || live.value !== asked) return
  feed?.close()
  feed = undefined
  live.value = { state: 'signed-out' }
}

/** Another tab may have signed in since this one was signed out. */
async function askAgain(): Promise<void> {
  if (live.value.state !== 'signed-out') return
  if (await isSignedIn()) tryNow()
}

/** Undefined while nobody answers. */
async function isSignedIn(): Promise<boolean | undefined> {
  const response = await fetch('/api/health').catch(() => undefined)
  return response && response.status !== UNAUTHORIZED
}
