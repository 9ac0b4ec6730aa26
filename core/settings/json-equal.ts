/**
 * Tells whether two JSON values mean the same. The order of an object's keys does not matter, that of an array does.
 * An absent key equals a key with `undefined`, because JSON cannot distinguish them.
 */
import { isObject } from '../../protocol/merge-patch.ts'

export function isJsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((inner, index) => isJsonEqual(inner, b[index]))
  }
  if (!isObject(a) || !isObject(b)) return false
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) =>
    isJsonEqual(ownValue(a, key), ownValue(b, key)),
  )
}

function ownValue(value: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined
}
