/**
 * Anything an agent prints, made into JSON that every reader of this protocol accepts.
 *
 * What an agent says is forwarded as it is, and an agent repeats whatever it has read: an object whose key reaches into
 * a prototype, nesting without end, half a character. Refused at the host it would cost the worker its connection, and
 * the same frame would come again after every reconnect. So it is made harmless before it is sent: names are changed,
 * depth and number are cut, and each cut says so. It never throws, and its time is bounded by what it keeps.
 */
import {
  AGENT_MESSAGE_DEPTH_MAX,
  AGENT_MESSAGE_KEYS_MAX,
  AGENT_MESSAGE_VALUES_MAX,
  JSON_KEYS_REFUSED,
} from './limits.ts'

/** Stands where something was left out. */
export const TRUNCATION_MARK = '… [cut]'

export function sanitizeJson(value: unknown): unknown {
  try {
    return copyValue(value, 1, { keys: AGENT_MESSAGE_KEYS_MAX, values: AGENT_MESSAGE_VALUES_MAX })
  } catch {
    // A getter or a proxy that throws: nothing that came out of JSON does.
    return TRUNCATION_MARK
  }
}

/** For where an object is expected: what is none is put into one. */
export function sanitizeObject(value: unknown): Record<string, unknown> {
  const made = sanitizeJson(value)
  return isRecord(made) ? made : { value: made }
}

/** What may still be copied. */
interface CopyBudget {
  keys: number
  values: number
}

function copyValue(value: unknown, depth: number, left: CopyBudget): unknown {
  left.values -= 1
  if (typeof value === 'string') return wellFormed(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value === 'boolean' || value === null || value === undefined) return value ?? null
  if (typeof value !== 'object') return wellFormed(String(value))
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
    copy[safeKey(wellFormed(key), object)] = copyValue(Reflect.get(object, key), depth + 1, left)
  }
  return copy
}

/** A name that is never accepted gets a tail, long enough to be nobody else's. */
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
