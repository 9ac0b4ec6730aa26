/**
 * Formats ages and clock times for people, and parses the times that people write after `--since` and `--timeout`.
 *
 * Durations of what has ended are formatted by `formatDuration`, which keeps their seconds. The present and the
 * local time are arguments.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { formatSeconds } from '../../protocol/format.ts'

/** How many minutes local time is ahead of UTC at an instant in milliseconds. */
export type UtcOffset = (at: number) => number

/** The local time of this machine. */
export const localOffset: UtcOffset = (at) => -new Date(at).getTimezoneOffset()

export interface Present {
  readonly now: number
  readonly offset: UtcOffset
}

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Seconds of what still goes on tell nothing after so long. */
const SECONDS_SHOWN_MS_MAX = 10 * MINUTE_MS

/** The last instant of a year with four digits. */
const INSTANT_MAX = Date.parse('9999-12-31T23:59:59.999Z')

/** A longer timer of Node would end at once. */
const TIMEOUT_MS_MAX = 24 * DAY_MS

/** How long something goes on or has been there: `12s`, `3m20s`, `26m`, `1h05m`, `3d4h`. Unknown is `-`. */
export function formatAge(ms: number | undefined): string {
  if (ms === undefined || Number.isNaN(ms)) return '-'
  if (ms >= SECONDS_SHOWN_MS_MAX && ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)}m`
  return formatSeconds(Math.floor(Math.max(0, ms) / SECOND_MS))
}

/** The age of an instant of the API; unknown is `-`. */
export function formatAgeOf(instant: string | undefined, now: number): string {
  return formatAge(instant === undefined ? undefined : now - Date.parse(instant))
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

/** Local time with 24 hours, and with the day when it is another: `15:32`, `tomorrow 09:00`, `Nov 24 09:00`. */
export function formatClock(at: number, { now, offset }: Present): string {
  const local = localDate(at, offset)
  const clock = `${twoDigits(local.getUTCHours())}:${twoDigits(local.getUTCMinutes())}`
  const today = localDate(now, offset)
  const days = dayNumber(local) - dayNumber(today)
  if (days === 0) return clock
  if (days === 1) return `tomorrow ${clock}`
  if (days === -1) return `yesterday ${clock}`
  const year = local.getUTCFullYear() === today.getUTCFullYear() ? '' : ` ${local.getUTCFullYear()}`
  return `${MONTHS[local.getUTCMonth()]} ${local.getUTCDate()}${year} ${clock}`
}

/** Local time with seconds, as logs have it: `15:06:03`. */
export function formatClockSeconds(at: number, offset: UtcOffset): string {
  return localDate(at, offset).toISOString().slice(11, 19)
}

/** The local day: `2026-11-22`. */
export function formatLocalDay(at: number, offset: UtcOffset): string {
  return localDate(at, offset).toISOString().slice(0, 10)
}

/** An instant as records have it, for output that is no terminal. */
export const formatInstant = (at: number): string => new Date(at).toISOString()

/** A date whose UTC fields are the local time. */
/** The beginning of the local day. */
export const lastMidnight = ({ now, offset }: Present): number =>
  instantOf(Date.parse(`${formatLocalDay(now, offset)}T00:00:00Z`), offset)

/** @param wall a local time, as if it were one of UTC */
const instantOf = (wall: number, offset: UtcOffset): number =>
  wall - offset(wall - offset(wall) * MINUTE_MS) * MINUTE_MS

const localDate = (at: number, offset: UtcOffset): Date => new Date(at + offset(at) * MINUTE_MS)
const dayNumber = (date: Date): number => Math.floor(date.getTime() / DAY_MS)
const twoDigits = (value: number): string => String(value).padStart(2, '0')

// ---- what people write -------------------------------------------------------------------------------------------

const FORMS = '90s, 30m, 3d, 2026-11-22 or 2026-11-22T14:00:00Z'
const DURATION = /^(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?$/
const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}(?:\.\d{1,9})?))?(Z|[+-]\d{2}:?\d{2})?)?$/i

const noTime = (text: string, option: string): Result<never> =>
  no('invalid', `${option} ${text === '' ? 'is empty' : `${text} is no time`}; write it like ${FORMS}`)

/** Returns the instant in the past that the value of `option` names. */
export function parseSince(text: string, option: string, present: Present): Result<number> {
  const duration = parseDuration(text)
  const at = duration === undefined ? parseInstant(text, present.offset) : present.now - duration
  if (at === undefined) return noTime(text, option)
  return at <= present.now ? yes(at) : no('invalid', `${option} ${text} lies in the future`)
}

/** Returns how long to wait, in milliseconds, from now until what the value of `option` names. */
export function parseTimeout(text: string, option: string, present: Present): Result<number> {
  const at = parseInstant(text, present.offset)
  const ms = parseDuration(text) ?? (at === undefined ? undefined : at - present.now)
  if (ms === undefined) return noTime(text, option)
  if (ms > TIMEOUT_MS_MAX)
    return no('invalid', `${option} ${text} is longer than ${formatAge(TIMEOUT_MS_MAX)}`)
  return ms >= 0 ? yes(ms) : no('invalid', `${option} ${text} lies in the past`)
}

/** The instant that a person names: after a duration, or as a date and a time. It lies in the future. */
export function parseExpiry(text: string, option: string, present: Present): Result<number> {
  const ms = parseDuration(text)
  const at = ms === undefined ? parseInstant(text, present.offset) : present.now + ms
  if (at === undefined || at > INSTANT_MAX) return noTime(text, option)
  return at > present.now ? yes(at) : no('invalid', `${option} ${text} lies in the past`)
}

/** Undefined for a text that is no duration. */
function parseDuration(text: string): number | undefined {
  const found = DURATION.exec(text)
  if (found === null || text === '') return undefined
  const [days = 0, hours = 0, minutes = 0, seconds = 0] = found.slice(1).map((part) => Number(part ?? 0))
  return days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
}

/** A date and a time without a zone are local. Undefined for what is not in the calendar. */
function parseInstant(text: string, offset: UtcOffset): number | undefined {
  const [, year, month, day, hours = '00', minutes = '00', seconds = '00', zone] = INSTANT.exec(text) ?? []
  const wall = Date.parse(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}Z`)
  // The calendar has no 30 February, but Date does.
  if (Number.isNaN(wall) || new Date(wall).getUTCDate() !== Number(day)) return undefined
  if (zone === undefined) return instantOf(wall, offset)
  return wall - zoneMinutes(zone) * MINUTE_MS
}

function zoneMinutes(zone: string): number {
  if (/^z$/i.test(zone)) return 0
  const [, sign, hours, minutes] = /^([+-])(\d{2}):?(\d{2})$/.exec(zone) ?? []
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes))
}
