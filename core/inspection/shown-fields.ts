/**
 * Chooses what of an event, an effect or a context may be shown to people who inspect actors.
 *
 * Numbers and booleans may. A text may only when its field is on the list and it looks like an id or a single word, because
 * events carry tokens, codes, prompts and what people type. Every other text is replaced by its length.
 */
import type { ShownFields } from '../../protocol/inspection.ts'
import { INSPECT_FIELDS_MAX, INSPECT_TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { shortenEnd } from '../../protocol/shorten.ts'

type ShownValue = string | number | boolean | null

/** The fields whose texts are ids, instants or words of the protocol. */
const SHOWN_TEXTS = new Set([
  'at',
  'by',
  'createdAt',
  'drivenBy',
  'effort',
  'endedAt',
  'ending',
  'expiresAt',
  'failure',
  'finishedAt',
  'grantedAt',
  'how',
  'id',
  'identifier',
  'instant',
  'is',
  'kind',
  'leaseId',
  'model',
  'outcome',
  'phase',
  'provider',
  'provision',
  'repo',
  'runId',
  'since',
  'startedAt',
  'state',
  'status',
  'step',
  'ticketId',
  'ticketIdentifier',
  'type',
  'until',
  'updatedAt',
  'workerId',
  'workerName',
])
const WORD = /^[\p{L}\p{N}][\p{L}\p{N}._:@/#+-]{0,79}$/u
const FIELD = /^[A-Za-z][A-Za-z0-9]{0,40}$/
const DEPTH_MAX = 3

export interface Shown {
  readonly fields: ShownFields
  /** How many fields are not shown, or only by their length. */
  readonly hidden: number
}

/** Flattens an object: `run.status`. Lists stand as their length. */
export function showFields(value: unknown): Shown {
  const fields: Record<string, ShownValue> = {}
  const hidden = addFields(fields, '', value, 0)
  return { fields, hidden }
}

/** The fields that differ; a field that is gone stands as null. */
export function changedFields(before: ShownFields, after: ShownFields): ShownFields | undefined {
  const changed: Record<string, ShownValue> = {}
  for (const [name, value] of Object.entries(after)) if (before[name] !== value) changed[name] = value
  for (const name of Object.keys(before)) if (!(name in after)) changed[name] = null
  return Object.keys(changed).length === 0 ? undefined : changed
}

function addFields(fields: Record<string, ShownValue>, path: string, value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  let hidden = 0
  for (const [name, inner] of Object.entries(value)) {
    // The type of an event stands beside its fields.
    if (inner === undefined || (path === '' && name === 'type')) continue
    if (!FIELD.test(name) || Object.keys(fields).length >= INSPECT_FIELDS_MAX) {
      hidden += 1
      continue
    }
    const at = path === '' ? name : `${path}.${name}`
    if (typeof inner === 'object' && inner !== null && !Array.isArray(inner) && depth + 1 < DEPTH_MAX)
      hidden += addFields(fields, at, inner, depth + 1)
    else {
      const shown = showValue(name, inner)
      fields[at] = shown.value
      if (shown.isHidden) hidden += 1
    }
  }
  return hidden
}

function showValue(name: string, value: unknown): { readonly value: ShownValue; readonly isHidden: boolean } {
  if (typeof value === 'number' || typeof value === 'boolean' || value === null)
    return { value, isHidden: false }
  if (typeof value === 'string')
    return SHOWN_TEXTS.has(name) && WORD.test(value)
      ? { value, isHidden: false }
      : { value: value === '' ? '' : `(text, ${countOf(value.length, 'character')})`, isHidden: value !== '' }
  if (Array.isArray(value))
    return { value: `(list, ${countOf(value.length, 'entry', 'entries')})`, isHidden: value.length > 0 }
  return { value: '(record)', isHidden: true }
}

const countOf = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : plural}`

/** An id that people gave, such as a ticket's; undefined when it may be more than a name. */
export const shownWord = (value: unknown): string | undefined =>
  typeof value === 'string' && WORD.test(value) ? value : undefined

/** A name of an actor, a state or an event, no longer than a frame allows. */
export const shortName = (name: string): string => shortenEnd(name, INSPECT_TEXT_CHARS_MAX)
