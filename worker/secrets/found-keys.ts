/**
 * Findings of keys in a run's work: their places and what they look like, never the key.
 *
 * A person's word to publish them is for the keys that were shown to them. Their digest goes to the host with the
 * places, and comes back with the word, so keys that are added later are asked about anew.
 */
import { createHash } from 'node:crypto'
import { no, type Result, yes } from '../../core/result.ts'
import { foundKeysText } from '../../core/run/found-keys.ts'
import type { FoundKey } from '../../protocol/found-key.ts'
import type { Job } from '../../protocol/frames.ts'
import { FOUND_KEYS_MAX } from '../../protocol/limits.ts'
import { findKeys } from './key-forms.ts'

/** `mark`: differs for another key, and for the same one elsewhere. A line that moved changes nothing about it. */
export type MarkedKey = FoundKey & { readonly mark: string }

export const hashOf = (value: string): string => createHash('sha256').update(value, 'latin1').digest('base64')

export const markOf = (kind: string, place: string, hash: string): string =>
  createHash('sha256')
    .update(JSON.stringify([kind, place, hash]))
    .digest('base64')

/** The work waits until a person says that it is published anyway, as the job then does. */
export function refuseKeys(
  { publishAnyway, shownKeys }: Pick<Job, 'publishAnyway' | 'shownKeys'>,
  found: readonly MarkedKey[],
): Result<void> {
  if (found.length === 0) return yes(undefined)
  const keysDigest = digestOf(found)
  // A host of an earlier version does not say what it showed.
  if (publishAnyway === true && (shownKeys ?? keysDigest) === keysDigest) return yes(undefined)
  const keys = placesOf(found).slice(0, FOUND_KEYS_MAX)
  const { refusal } = no('forbidden', `${foundKeysText(keys)}, so nothing was published`)
  return { ok: false, refusal: { ...refusal, keys, keysDigest } }
}

/** `place`: what holds the text, such as "the text for the pull request". */
export const keysInText = (text: string, place: string): MarkedKey[] =>
  findKeys(text).map(({ kind, value }) => ({ kind, file: place, mark: markOf(kind, place, hashOf(value)) }))

/** The distinct places. */
export function placesOf(found: readonly MarkedKey[]): FoundKey[] {
  const places = found.map(({ mark: _, ...place }): FoundKey => place)
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()]
}

function digestOf(found: readonly MarkedKey[]): string {
  const marks = [...new Set(found.map(({ mark }) => mark))].sort()
  return createHash('sha256').update(marks.join('\n')).digest('base64')
}
