/**
 * Turns anything that an agent prints into JSON that every reader of this protocol accepts.
 *
 * Agent messages are forwarded unchanged, and an agent repeats whatever it has read: prototype keys, endless nesting,
 * lone surrogates. The host would refuse such a frame and close the connection, and the worker would send the frame
 * again after each reconnect. So messages are sanitized before sending: keys are renamed, depth and size are cut, and
 * each cut is marked. The function never throws, and its time is limited by what it keeps.
 */
import {
  AGENT_MESSAGE_DEPTH_MAX,
  AGENT_MESSAGE_KEYS_MAX,
  AGENT_MESSAGE_VALUES_MAX,
  JSON_KEYS_REFUSED,
} from './limits.ts'

/** Marks a place where something was left out. */
export const TRUNCATION_MARK = '… [cut]'

/** @param cleanText applied to every text and key, before forbidden keys are renamed */
export function sanitizeJson(value: unknown, cleanText: (text: string) => string = (text) => text): unknown {
  try {
    const left = { keys: AGENT_MESSAGE_KEYS_MAX, values: AGENT_MESSAGE_VALUES_MAX }
    return copyValue(value, 1, { ...left, cleanText: (text) => cleanText(wellFormed(text)) })
  } catch {
    // A getter or proxy threw; values parsed from JSON have neither.
    return TRUNCATION_MARK
  }
}

/** Like `sanitizeJson`, but wraps a value that is no object into one. */
export function sanitizeObject(
  value: unknown,
  cleanText?: (text: string) => string,
): Record<string, unknown> {
  const made = sanitizeJson(value, cleanText)
  return isRecord(made) ? made : { value: made }
}

interface CopyBudget {
  /** The number of keys and values that may still be copied. */
  keys: number
  values: number
  readonly cleanText: (text: string) => string
}

function copyValue(value: unknown, depth: number, left: CopyBudget): unknown {
  left.values -= 1
  if (typeof value === 'string') return left.cleanText(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value === 'boolean' || value === null || value === undefined) return value ?? null
  if (typeof value !== 'object') return left.cleanText(String(value))
  if (depth > AGENT_MESSAGE_DEPTH_MAX || left.values <= 0) return TRUNCATION_MARK
  return Array.isArray(value) ? copyList(value, depth, left) : copyObject(value, depth, left)
}

function copyList(list: readonly unknown[], depth: number, left: CopyBudget): unknown[] {
  const copy: unknown[] = []
  for (const item of list) {
    if (left.values <= 0) return [...copy, TRUNCATION_MARK]
    copy.push(copyValue(item, depth + 1, left))
  }
  return copy
}

function copyObject(object: object, depth: number, left: CopyBudget): Record<string, unknown> {
  const copy: Record<string, unknown> = {}
  for (const key in object) {
    if (!Object.hasOwn(object, key)) continue
    left.keys -= 1
    if (left.keys < 0 || left.values <= 0) return { ...copy, [TRUNCATION_MARK]: true }
    copy[safeKey(left.cleanText(key), object)] = copyValue(Reflect.get(object, key), depth + 1, left)
  }
  return copy
}

/** Appends underscores to a forbidden key until it is unique. */
function safeKey(key: string, among: object): string {
  if (!JSON_KEYS_REFUSED.includes(key)) return key
  let name = `${key}_`
  while (Object.hasOwn(among, name)) name += '_'
  return name
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g

const wellFormed = (text: string): string => text.replace(LONE_SURROGATE, '\uFFFD')

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
