/**
 * Applies a JSON merge patch to a value.
 *
 * Objects merge key by key, arrays and scalars replace, `null` deletes its key. The result shares nothing with either
 * argument, and neither is changed. A key named `__proto__` becomes a plain key of the result and reaches no
 * prototype; `checkJsonSafety` decides whether such a key is allowed.
 */
export function mergePatch(current: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return copy(patch)
  const merged = new Map<string, unknown>()
  for (const [key, value] of Object.entries(isObject(current) ? current : {})) {
    if (!Object.hasOwn(patch, key)) merged.set(key, copy(value))
    else if (patch[key] !== null) merged.set(key, mergePatch(value, patch[key]))
  }
  for (const [key, value] of Object.entries(patch)) {
    if (value !== null && !merged.has(key)) merged.set(key, mergePatch(undefined, value))
  }
  // fromEntries defines keys instead of assigning them, so no setter is called.
  return Object.fromEntries(merged)
}

/** A JSON object: neither `null`, an array nor a scalar. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copy(inner)]))
}
