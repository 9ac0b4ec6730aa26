/**
 * Reads and builds values by path, written `/tracker/apiKey` as people read it.
 *
 * Only own keys count, inherited ones are never found. The whole value is `/`.
 */
import { isObject } from '../../protocol/merge-patch.ts'

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
