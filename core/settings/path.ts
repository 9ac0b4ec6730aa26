/**
 * Where something is inside a value, written `/tracker/apiKey` as people read it.
 *
 * Only own keys count: nothing inherited is ever found. The whole value is `/`.
 */
import { isObject } from './merge.ts'

export function valueAt(value: unknown, path: string): unknown {
  let found = value
  for (const key of keysOf(path)) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined
    found = found[key]
  }
  return found
}

/** An object holding nothing but `value` at `path`. */
export function objectWith(path: string, value: unknown): unknown {
  return keysOf(path).reduceRight<unknown>((inner, key) => Object.fromEntries([[key, inner]]), value)
}

function keysOf(path: string): string[] {
  return path.split('/').filter((key) => key !== '')
}
