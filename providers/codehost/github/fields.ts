/**
 * Reading what GitHub answers, field by field.
 *
 * It is a stranger's: what is there may be of any type and of any length, and what comes out of here is of the one that
 * was asked for, within its bound.
 */
import { NAME_CHARS_MAX, URL_CHARS_MAX } from '../../../protocol/limits.ts'

/** GitHub's own name for an account that is no more. */
const GHOST = 'ghost'
const LINK = /^https?:\/\/[^\s]+$/
const WIDE_YEAR = /^[+-]/

/** Along a path of names. */
export function readField(value: unknown, ...path: readonly string[]): unknown {
  let at = value
  for (const name of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = Reflect.get(at, name)
  }
  return at
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Empty where there is none. */
export function asText(value: unknown, charsMax = NAME_CHARS_MAX): string {
  return typeof value === 'string' ? cutText(value, charsMax) : ''
}

/** Half of a surrogate pair, sent or made by cutting, is no text. */
function cutText(text: string, charsMax: number): string {
  const short = text.length > charsMax ? text.slice(0, charsMax) : text
  return short.replace(/\p{Cs}/gu, '\uFFFD')
}

export function asCount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0
}

/** From 1 on, as pull requests, issues and lines are numbered. */
export function asPositiveInteger(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 ? value : undefined
}

export function asLink(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= URL_CHARS_MAX && LINK.test(value) ? value : undefined
}

/** GitHub leaves the milliseconds out. */
export function asInstant(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const at = new Date(value)
  if (Number.isNaN(at.getTime())) return undefined
  const instant = at.toISOString()
  return WIDE_YEAR.test(instant) ? undefined : instant
}

export function readLogin(user: unknown): string {
  return asText(readField(user, 'login')) || GHOST
}
