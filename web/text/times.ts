/**
 * Durations, instants and ages as the pages write them: two units at most, local time with 24 hours.
 *
 * The present is an argument, so that everything on a page shows the same one.
 */
import { formatSeconds } from '../../protocol/format.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const WEEK = 7 * DAY

/** `22 s`, `4 m 55 s`, `1 h 09 m`, `6 d 4 h`; unknown is `–`. */
export function formatDuration(ms: number | undefined): string {
  if (ms === undefined || Number.isNaN(ms)) return '–'
  return formatSeconds(Math.floor(Math.max(0, ms) / SECOND), ' ')
}

/** A single unit, for columns of what happened: `22 s`, `18 m`, `1 h 09 m`, `6 d`. */
export function formatShortAge(ms: number | undefined): string {
  if (ms === undefined || Number.isNaN(ms)) return '–'
  if (ms >= DAY) return `${Math.floor(ms / DAY)} d`
  return ms < MINUTE || ms >= HOUR ? formatDuration(ms) : `${Math.floor(ms / MINUTE)} m`
}

/** Milliseconds since an instant of the API; unknown stays unknown. */
export const ageOf = (instant: string | undefined, now: number): number | undefined =>
  instant === undefined ? undefined : now - Date.parse(instant)

/** `14:07` today, `Fri 14:07` in the last six days, `9 Nov` before that. */
export function formatInstant(instant: string | number, now: number): string {
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return '–'
  if (dayOf(at) === dayOf(new Date(now))) return clockOf(at)
  const age = now - at.getTime()
  if (Math.abs(age) < WEEK - DAY)
    return `${at.toLocaleDateString('en-GB', { weekday: 'short' })} ${clockOf(at)}`
  const isThisYear = at.getFullYear() === new Date(now).getFullYear()
  return at.toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'short',
    ...(isThisYear ? {} : { year: 'numeric' }),
  })
}

/** `14:07:32`, as in logs. */
export function formatClock(instant: string | number): string {
  const at = new Date(instant)
  return `${clockOf(at)}:${twoDigits(at.getSeconds())}`
}

/** A new format for each text would take longer than everything else in a row of a log. */
const FULL_TIME = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long' })

/** The full time with its zone, for tooltips. */
export function formatFullTime(instant: string | number): string {
  const at = new Date(instant)
  return Number.isNaN(at.getTime()) ? '–' : FULL_TIME.format(at)
}

/** The local day of an instant, like `2026-11-22`. */
export const dayOf = (at: Date): string =>
  `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`

const clockOf = (at: Date): string => `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`
const twoDigits = (value: number): string => String(value).padStart(2, '0')
