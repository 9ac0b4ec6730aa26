/**
 * Changes frames into those of a later version of the protocol: every object has an additional key, and frames of
 * unknown types come in between. The messages of agents stay, because no schema describes them.
 */
import { isObject } from '../../protocol/schema-errors.ts'

export const ADDED_KEY = 'addedLater'

export function addUnknownKeys(text: string): string {
  return JSON.stringify(addBelow(JSON.parse(text)))
}

function addBelow(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(addBelow)
  if (!isObject(value)) return value
  const kept = Object.entries(value).map(([key, inner]) => [
    key,
    key === 'message' && isObject(inner) ? inner : addBelow(inner),
  ])
  return { ...Object.fromEntries(kept), [ADDED_KEY]: { of: ['a', { later: 'version' }] } }
}

/** A frame whose type no version knows yet. */
export const UNKNOWN_FRAME = '{"type":"added-later","leaseId":"ls-0","seq":1,"patch":{"status":"failed"}}'
