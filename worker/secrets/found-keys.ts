/** Findings of keys in a run's work: their places and what they look like, never the key. */
import { no, type Result, yes } from '../../core/result.ts'
import { foundKeysText } from '../../core/run/found-keys.ts'
import type { FoundKey } from '../../protocol/found-key.ts'
import type { Job } from '../../protocol/frames.ts'
import { FOUND_KEYS_MAX } from '../../protocol/limits.ts'
import { findKeys } from './key-forms.ts'

/** The work waits until a person says that it is published anyway, as the job then does. */
export function refuseKeys(
  { publishAnyway }: Pick<Job, 'publishAnyway'>,
  found: readonly FoundKey[],
): Result<void> {
  if (publishAnyway === true || found.length === 0) return yes(undefined)
  const keys = found.slice(0, FOUND_KEYS_MAX)
  const { refusal } = no('forbidden', `${foundKeysText(keys)}, so nothing was published`)
  return { ok: false, refusal: { ...refusal, keys } }
}

/** `place`: what holds the text, such as "the text for the pull request". */
export const keysInText = (text: string, place: string): FoundKey[] =>
  distinctKeys(findKeys(text).map(({ kind }) => ({ kind, file: place })))

export function distinctKeys(found: readonly FoundKey[]): FoundKey[] {
  return [...new Map(found.map((key) => [JSON.stringify(key), key])).values()]
}
