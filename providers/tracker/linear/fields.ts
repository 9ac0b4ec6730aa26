/** What a stranger's JSON holds, read one step at a time: what is not there, or is something else, is undefined. */

export function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path)
  return typeof found === 'string' ? found : undefined
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

/** As instants are written here; undefined when it is none. */
export function instantAt(value: unknown, ...path: readonly string[]): string | undefined {
  const text = textAt(value, ...path)
  const instant = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(instant) ? undefined : new Date(instant).toISOString()
}
