/**
 * Reads GitHub's replies field by field.
 *
 * The replies are untrusted: a field may have any type and length. Results have the requested type and stay within
 * their limit.
 */

import { truncate } from '../../core/safe-text.ts'
import { NAME_CHARS_MAX, URL_CHARS_MAX } from '../../protocol/limits.ts'
import { readField } from '../http/reply-fields.ts'

/** Name that GitHub gives to deleted accounts. */
const GHOST = 'ghost'
const LINK = /^https?:\/\/[^\s]+$/
const WIDE_YEAR = /^[+-]/

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** Empty when the value is not a text. A lone surrogate, which GitHub may send, becomes a visible sign. */
export function asText(value: unknown, charsMax = NAME_CHARS_MAX): string {
  return typeof value === 'string' ? truncate(value, charsMax).replace(/\p{Cs}/gu, '\uFFFD') : ''
}

export function asCount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0
}

/** Pull requests, issues and lines are numbered from 1. */
export function asPositiveInteger(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 ? value : undefined
}

export function asLink(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= URL_CHARS_MAX && LINK.test(value) ? value : undefined
}

/** Adds the milliseconds that GitHub leaves out. */
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

/** GitHub says how an author relates to the repository, and names no rights. */
const WRITERS: ReadonlySet<string> = new Set(['OWNER', 'MEMBER', 'COLLABORATOR'])
export const mayWrite = (association: unknown): boolean => WRITERS.has(asText(association))
