/**
 * Reads, builds, compares and checks JSON values.
 *
 * A path is written `/tracker/apiKey` as people read it; the whole value is `/`. Only own keys count, inherited ones are
 * never found.
 */
import { JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_KEYS_REFUSED } from '../../protocol/limits.ts'
import { isObject } from '../../protocol/merge-patch.ts'
import { problemAt } from '../../protocol/schema-errors.ts'
import { no, type Result, yes } from '../result.ts'

export function valueAt(value: unknown, path: string): unknown {
  let found = value
  for (const key of keysOf(path)) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined
    found = found[key]
  }
  return found
}

/** Returns an object that contains only `value` at `path`. */
export function objectWith(path: string, value: unknown): unknown {
  return keysOf(path).reduceRight<unknown>((inner, key) => Object.fromEntries([[key, inner]]), value)
}

function keysOf(path: string): string[] {
  return path.split('/').filter((key) => key !== '')
}

/**
 * Tells whether two JSON values mean the same. The order of an object's keys does not matter, that of an array does.
 * An absent key equals a key with `undefined`, because JSON cannot distinguish them.
 */
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

/**
 * Tells whether a value survives being written as JSON and read again, whatever it means.
 *
 * Refused are keys that reach into a prototype, too much nesting, too many keys, numbers that JSON cannot express
 * (`1e999` parses as infinity and is written back as `null`), and lone surrogates, which do not survive UTF-8.
 */
export function checkJsonSafety(value: unknown): Result<true> {
  const fault = findFault(value, [], { keysLeft: JSON_KEYS_MAX })
  return fault === undefined ? yes(true) : no('invalid', fault)
}

/** The number of keys that the rest of the value may have. */
interface KeyBudget {
  keysLeft: number
}

function findFault(value: unknown, path: readonly string[], budget: KeyBudget): string | undefined {
  if (!Array.isArray(value) && !isObject(value)) return scalarFault(value, path)
  // Recursion is safe here because it ends at the allowed depth.
  if (path.length >= JSON_DEPTH_MAX) return problemAt(path, `is nested deeper than ${JSON_DEPTH_MAX} levels`)
  const entries = Object.entries(value)
  budget.keysLeft -= entries.length
  if (budget.keysLeft < 0) return problemAt([], `has more than ${JSON_KEYS_MAX} keys`)
  for (const [key, inner] of entries) {
    const within = [...path, key]
    const fault = keyFault(key, within) ?? findFault(inner, within, budget)
    if (fault !== undefined) return fault
  }
  return undefined
}

function keyFault(key: string, path: readonly string[]): string | undefined {
  if (JSON_KEYS_REFUSED.includes(key)) return problemAt(path, 'is a key that is never accepted')
  return isWellFormed(key) ? undefined : problemAt(path, 'is a key with half of a surrogate pair')
}

function scalarFault(value: unknown, path: readonly string[]): string | undefined {
  if (value === null || typeof value === 'boolean') return undefined
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : problemAt(path, 'is a number out of range')
  if (typeof value !== 'string') return problemAt(path, `is not a JSON value (${typeof value})`)
  return isWellFormed(value) ? undefined : problemAt(path, 'holds half of a surrogate pair')
}

/** With the `u` flag, only a lone surrogate matches as a character of its own. */
function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}
