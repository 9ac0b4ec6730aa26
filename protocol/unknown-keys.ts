/**
 * Removes the keys that a schema does not declare, at every depth of a value.
 *
 * Readers of the worker channel use this function: a newer peer may add keys, and an added key must neither close the
 * connection nor be stored. Objects that a schema leaves open keep all their keys. The function checks nothing else:
 * the result still has to pass the schema.
 */
import { chooseBranch, isObject, propertyShape, type Shape } from './schema-errors.ts'

/** Returns the same value when there is nothing to remove below it. */
export function removeUnknownKeys(schema: Shape, value: unknown): unknown {
  const shape = schema.anyOf === undefined ? schema : chooseBranch(schema, value)
  if (shape === undefined) return value
  if (Array.isArray(value)) return removeFromList(shape, value)
  return isObject(value) ? removeFromObject(shape, value) : value
}

function removeFromList({ items }: Shape, list: readonly unknown[]): readonly unknown[] {
  if (items === undefined) return list
  const kept = list.map((item) => removeUnknownKeys(items, item))
  return kept.some((item, index) => item !== list[index]) ? kept : list
}

function removeFromObject(schema: Shape, object: Readonly<Record<string, unknown>>): object {
  const entries = Object.entries(object)
  const kept = entries.flatMap(([key, value]) => {
    const inner = propertyShape(schema, key)
    if (inner === undefined) return schema.additionalProperties === false ? [] : [[key, value] as const]
    return [[key, removeUnknownKeys(inner, value)] as const]
  })
  const isUnchanged = kept.length === entries.length && kept.every(([key, value]) => value === object[key])
  return isUnchanged ? object : Object.fromEntries(kept)
}
