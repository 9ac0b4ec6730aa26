/**
 * Parses JSON lines of an agent's output and reads fields of untrusted objects.
 *
 * No field is trusted, because agents repeat what they have read: a count is a non-negative integer or becomes 0, a
 * text is a string or absent. Only own properties are read.
 */
export type JsonObject = Readonly<Record<string, unknown>>

/** Returns undefined when the line is not a JSON object. */
export function parseObject(line: string): JsonObject | undefined {
  if (!/^\s*\{/.test(line)) return undefined
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

export const isBlank = (line: string): boolean => !/\S/.test(line)

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const EMPTY: JsonObject = {}

export function field(object: JsonObject, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

/** Returns an empty object when the field is not an object. */
export function objectAt(object: JsonObject, name: string): JsonObject {
  const value = field(object, name)
  return isObject(value) ? value : EMPTY
}

export function listAt(object: JsonObject, name: string): readonly unknown[] {
  const value = field(object, name)
  return Array.isArray(value) ? value : []
}

export function textAt(object: JsonObject, name: string): string | undefined {
  const value = field(object, name)
  return typeof value === 'string' ? value : undefined
}

export function countAt(object: JsonObject, name: string): number {
  const value = field(object, name)
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0
}

export function numberAt(object: JsonObject, name: string): number | undefined {
  const value = field(object, name)
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
