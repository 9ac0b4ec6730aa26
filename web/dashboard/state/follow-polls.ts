/**
 * Asks for the tracker's status after each of its polls, so that a page shows the age of the last one: the host pushes a
 * status only when the connection changes. The first load does not contain this file.
 */
import { effect } from '@preact/signals'
import { host } from './host.ts'
import { live } from './live.ts'
import { tracker } from './records.ts'

/** A poll takes a moment itself. */
const AFTER_POLL_MS = 2_000

export function followPolls(): void {
  effect(() => {
    const { state, nextPollAt } = tracker.value
    if (live.value.state !== 'live' || state !== 'connected') return undefined
    const untilPoll = nextPollAt === undefined ? 0 : Math.max(0, Date.parse(nextPollAt) - Date.now())
    const timer = setTimeout(() => void readStatus(), untilPoll + AFTER_POLL_MS)
    return () => clearTimeout(timer)
  })
}

async function readStatus(): Promise<void> {
  // A request that fails leaves the old age; the next connection asks again.
  const status = await host.readTrackerStatus().catch(() => undefined)
  if (status !== undefined) tracker.value = status
}
