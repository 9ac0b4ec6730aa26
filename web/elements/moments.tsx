/**
 * Instants and durations in the page. All of them show the same present, which stands still while the page is hidden
 * or has lost its host.
 */
import { signal } from '@preact/signals'
import { ageOf, formatDuration, formatFullTime, formatInstant, formatShortAge } from '../text/times.ts'

/** The present, second by second. */
export const now = signal(Date.now())

const TICK_MS = 1_000

/** @param isStopped whether the present stands still, because what is shown is old */
export function startClock(isStopped: () => boolean): void {
  const tick = () => {
    if (!document.hidden && !isStopped()) now.value = Date.now()
  }
  setInterval(tick, TICK_MS)
  document.addEventListener('visibilitychange', tick)
}

/** `14:07`, with the full time as its tooltip. */
export function Moment({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={formatFullTime(at)}>
      {formatInstant(at, now.value)}
    </time>
  )
}

/** How long ago something was, in one unit. */
export function Age({ since }: { readonly since: string | undefined }) {
  if (since === undefined) return <span>–</span>
  return (
    <time dateTime={since} title={formatFullTime(since)}>
      {formatShortAge(ageOf(since, now.value))}
    </time>
  )
}

/** How long something took, or takes until now. */
export function Span({ from, to }: { readonly from: string | undefined; readonly to?: string | undefined }) {
  if (from === undefined) return <span>–</span>
  const end = to === undefined ? now.value : Date.parse(to)
  return <span title={formatFullTime(from)}>{formatDuration(ageOf(from, end))}</span>
}
