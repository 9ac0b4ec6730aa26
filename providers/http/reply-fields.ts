/** Reads untrusted JSON along a path of keys; a missing or mistyped value is undefined. */

export function readField(value: unknown, ...path: readonly string[]): unknown {
  let found = value
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = Reflect.get(found, key)
  }
  return found
}

export function readText(value: unknown, ...path: readonly string[]): string | undefined {
  const found = readField(value, ...path)
  return typeof found === 'string' ? found : undefined
}

export function readList(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = readField(value, ...path)
  return Array.isArray(found) ? found : []
}

/** ISO text in UTC; undefined when the value is not an instant. */
export function readInstant(value: unknown, ...path: readonly string[]): string | undefined {
  const text = readText(value, ...path)
  const instant = text === undefined ? Number.NaN : Date.parse(text)
  return Number.isNaN(instant) ? undefined : new Date(instant).toISOString()
}
