/** Local days of this browser. */
import { dayOf } from './times.ts'

export const dayOfInstant = (at: number): string => dayOf(new Date(at))

/** The beginning of the local day that lies so many days before the one of an instant. */
export function midnightBefore(at: number, days: number): number {
  const date = new Date(at)
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() - days).getTime()
}

/** A day of the calendar as a local instant, for its name. */
const instantOf = (day: string): Date => new Date(`${day}T12:00:00`)

/** `Mon 9`. */
export function shortDay(day: string): string {
  const at = instantOf(day)
  return `${at.toLocaleDateString('en-GB', { weekday: 'short' })} ${at.getDate()}`
}

/** `9 Nov`. */
export const dayAndMonth = (day: string): string =>
  instantOf(day).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })

/** `Monday 9 November`. */
export const longDay = (day: string): string =>
  instantOf(day).toLocaleDateString('en-GB', { weekday: 'long', day: 'numeric', month: 'long' })

/** `9 to 22 November`, `30 October to 12 November`. */
export function rangeOfDays(first: string, last: string): string {
  const [from, to] = [instantOf(first), instantOf(last)]
  const month = (at: Date) => at.toLocaleDateString('en-GB', { month: 'long' })
  const isSameMonth = from.getMonth() === to.getMonth() && from.getFullYear() === to.getFullYear()
  return `${from.getDate()}${isSameMonth ? '' : ` ${month(from)}`} to ${to.getDate()} ${month(to)}`
}
