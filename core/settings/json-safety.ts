/**
 * Tells whether a value survives being written as JSON and read again, whatever it means.
 *
 * Refused are keys that reach into a prototype, too much nesting, too many keys, numbers that JSON cannot express
 * (`1e999` parses as infinity and is written back as `null`), and lone surrogates, which do not survive UTF-8.
 */
import { JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_KEYS_REFUSED } from '../../protocol/limits.ts'
import { isObject } from '../../protocol/merge-patch.ts'
import { problemAt } from '../../protocol/schema-errors.ts'
import { no, type Result, yes } from '../result.ts'

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
