/** The paths of settings in an entry of the trail of actions: names only, never a value. */
import { isJsonEqual } from './settings/json-values.ts'

/** How many paths of settings an entry names. */
export const TRAIL_KEYS_MAX = 50
/** The longest name, id or path in an entry; the rest of a longer one is left out. */
export const TRAIL_TEXT_CHARS_MAX = 300

/** The paths of everything that is given, like `policy.paused`; a list counts as one thing. */
export const pathsIn = (value: unknown): string[] => changedPaths(undefined, value)

/** The paths whose values differ. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = []
  addChanges(paths, '', before, after)
  return paths
}

export const shortenName = (text: string): string => text.slice(0, TRAIL_TEXT_CHARS_MAX)

function addChanges(paths: string[], path: string, before: unknown, after: unknown): void {
  if (paths.length >= TRAIL_KEYS_MAX || isJsonEqual(before, after)) return
  const [old, changed] = [childrenOf(before), childrenOf(after)]
  const keys = new Set([...Object.keys(old), ...Object.keys(changed)])
  if (keys.size === 0 && path !== '') paths.push(shortenName(path))
  for (const key of keys) addChanges(paths, path === '' ? key : `${path}.${key}`, old[key], changed[key])
}

const childrenOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
