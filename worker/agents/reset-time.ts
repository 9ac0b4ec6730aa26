/**
 * Parses the time when a usage limit ends from an agent's message: `try again at 2:22 AM`, `try again at Nov 22nd,
 * 2026 2:22 AM`, `try again in 3 hours 5 minutes`. A time of day means its next occurrence after `reportedAt`, in UTC.
 *
 * Returns undefined for other messages, and for times further away than any limit lasts.
 */
export function parseResetTime(text: string, reportedAt: string): string | undefined {
  const now = Date.parse(reportedAt)
  const ms = parseDuration(text, now) ?? parseDate(text) ?? parseTimeOfDay(text, now)
  if (ms === undefined || !(ms >= now - LATE_MS_MAX && ms <= now + LIMIT_MS_MAX)) return undefined
  return new Date(ms).toISOString()
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const LIMIT_MS_MAX = 62 * DAY_MS
/** Tolerates clock differences and delayed messages. */
const LATE_MS_MAX = HOUR_MS

const CLOCK = '(\\d{1,2}):(\\d{2})(?::\\d{2})?\\s*([AP])M'
const AT_CLOCK = new RegExp(`try again at ${CLOCK}`, 'i')
const AT_DATE = new RegExp(
  `try again at ([A-Z]{3})[a-z]* (\\d{1,2})(?:st|nd|rd|th)?,? (\\d{4}),? ${CLOCK}`,
  'i',
)
const IN_SPAN =
  /try again in (?:(\d{1,3}) days?)?[ ,]*(?:(\d{1,3}) hours?)?[ ,]*(?:(\d{1,4}) minutes?)?[ ,]*(?:(\d{1,5}) seconds?)?/i
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

function parseDuration(text: string, now: number): number | undefined {
  const found = IN_SPAN.exec(text)
  if (found === null || found.slice(1).every((part) => part === undefined)) return undefined
  const [, days = 0, hours = 0, minutes = 0, seconds = 0] = found.map(Number).map((n) => (n > 0 ? n : 0))
  return now + days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000
}

function parseDate(text: string): number | undefined {
  const [, name = '', day, year, hour, minute, half = ''] = AT_DATE.exec(text) ?? []
  const month = MONTHS.indexOf(name.toLowerCase())
  if (month < 0) return undefined
  return Date.UTC(Number(year), month, Number(day)) + timeOfDay(hour, minute, half)
}

function parseTimeOfDay(text: string, now: number): number | undefined {
  const [whole, hour, minute, half = ''] = AT_CLOCK.exec(text) ?? []
  if (whole === undefined) return undefined
  const today = Math.floor(now / DAY_MS) * DAY_MS + timeOfDay(hour, minute, half)
  return today > now ? today : today + DAY_MS
}

function timeOfDay(hour: string | undefined, minute: string | undefined, half: string): number {
  const noon = half.toLowerCase() === 'p' ? 12 : 0
  return ((Number(hour) % 12) + noon) * HOUR_MS + Number(minute) * MINUTE_MS
}
