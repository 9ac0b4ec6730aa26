/**
 * Turns untrusted text into a checked value, or into one message that names the wrong field and the reason.
 *
 * Two checks run in a row: `parseJson` refuses values that could harm the process whatever they mean (depth, number
 * of keys, prototype keys), and a checker compares the value with a schema. A compiled schema only accepts or
 * rejects; after a rejection `explainMismatch` walks the value again for the message. An open checker first removes the
 * keys that only a newer peer knows.
 */
import type { Static, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_KEYS_REFUSED } from './limits.ts'
import {
  asShape,
  chooseBranch,
  explainMismatch,
  isObject,
  problemAt,
  propertyShape,
  type Shape,
} from './schema-errors.ts'

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string }
export type Checker<T> = (value: unknown) => Parsed<T>

const refused = (error: string): Parsed<never> => ({ ok: false, error })

// ---- text to value ---------------------------------------------------------------------------------------------

/** `keysMax`: a higher limit for known senders whose texts are limited in other ways. */
export function parseJson(text: string, keysMax = JSON_KEYS_MAX): Parsed<unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return refused(describeSyntaxError(text, error))
  }
  if (isSafeJson(value, keysMax)) return { ok: true, value }
  return refused(findUnsafe(value, keysMax) ?? problemAt([], 'is not acceptable'))
}

/** The engine's message quotes the text, which may contain a credential, so only the position is taken from it. */
function describeSyntaxError(text: string, error: unknown): string {
  if (text.trim() === '') return problemAt([], 'is not JSON: there is nothing')
  const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1]
  if (position === undefined) return problemAt([], 'is not JSON')
  const before = text.slice(0, Number(position)).split('\n')
  return problemAt([], `is not JSON: line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`)
}

/** The fast check of the common case, without a path for errors. The depth limit makes recursion safe. */
export function isSafeJson(value: unknown, keysMax = JSON_KEYS_MAX): boolean {
  return typeof value !== 'object' || value === null || countKeys(value, 1) <= keysMax
}

/** Counts the keys of a value; infinity when it contains something that is refused. */
function countKeys(container: object, depth: number): number {
  if (depth > JSON_DEPTH_MAX) return Number.POSITIVE_INFINITY
  let keys = 0
  if (Array.isArray(container)) {
    for (let index = 0; index < container.length; index++) keys += countKeysWithin(container[index], depth)
    return keys
  }
  // Parsed objects inherit no enumerable key, so no list of own keys is needed.
  for (const key in container) {
    if (JSON_KEYS_REFUSED.includes(key)) return Number.POSITIVE_INFINITY
    keys += 1 + countKeysWithin(Reflect.get(container, key), depth)
  }
  return keys
}

const countKeysWithin = (value: unknown, depth: number): number =>
  typeof value === 'object' && value !== null ? countKeys(value, depth + 1) : 0

/** A container that is not visited yet; the parents are followed only to build an error path. */
interface Container {
  readonly value: object
  readonly depth: number
  readonly key: string | number
  readonly parent: Container | undefined
}

/** Uses its own stack, because the sender decides how deep the value is. */
function findUnsafe(root: unknown, keysMax: number): string | undefined {
  const waiting: Container[] = []
  push(waiting, root, '', undefined)
  let keys = 0
  for (let container = waiting.pop(); container !== undefined; container = waiting.pop()) {
    if (container.depth > JSON_DEPTH_MAX)
      return problemAt(pathOf(container), `is nested deeper than ${JSON_DEPTH_MAX} levels`)
    if (Array.isArray(container.value)) {
      for (let index = 0; index < container.value.length; index++)
        push(waiting, container.value[index], index, container)
      continue
    }
    for (const [key, inner] of Object.entries(container.value)) {
      keys += 1
      if (keys > keysMax) return problemAt([], `has more than ${keysMax} keys`)
      if (JSON_KEYS_REFUSED.includes(key))
        return problemAt([...pathOf(container), key], 'is a key that is never accepted')
      push(waiting, inner, key, container)
    }
  }
  return undefined
}

function push(
  waiting: Container[],
  value: unknown,
  key: string | number,
  parent: Container | undefined,
): void {
  if (typeof value !== 'object' || value === null) return
  waiting.push({ value, depth: (parent?.depth ?? 0) + 1, key, parent })
}

function pathOf(container: Container): string[] {
  const path: string[] = []
  for (
    let current: Container | undefined = container;
    current?.parent !== undefined;
    current = current.parent
  )
    path.unshift(String(current.key))
  return path
}

// ---- value to type ---------------------------------------------------------------------------------------------

/** Checkers by schema. Schemas are constants of their modules, so their number is fixed. */
const checkers = new WeakMap<TSchema, Checker<unknown>>()

/** Compiles on first use, because a process needs only a few of the schemas and must start quickly. */
export function createChecker<S extends TSchema>(schema: S): Checker<Static<S>> {
  const made = checkers.get(schema) ?? compileChecker(schema)
  checkers.set(schema, made)
  // The map is keyed by the schema, so the checker has the schema's type.
  return made as Checker<Static<S>>
}

function compileChecker(schema: TSchema): Checker<unknown> {
  const accepts = acceptor(schema)
  return (value) => (accepts(value) ? { ok: true, value } : refused(explainMismatch(schema, value)))
}

/**
 * A checker for readers of the worker channel: keys that the schema does not know are removed instead of refused, at
 * every depth. A value without such keys costs one check and is not copied.
 */
export function createOpenChecker<S extends TSchema>(schema: S): Checker<Static<S>> {
  const accepts = acceptor(schema)
  const check = createChecker(schema)
  return (value) =>
    // The schema has accepted the value, so it has the schema's type.
    accepts(value)
      ? { ok: true, value: value as Static<S> }
      : check(removeUnknownKeys(asShape(schema), value))
}

/** Compiled schemas, so that the checkers of one schema share its compiled form. */
const acceptors = new WeakMap<TSchema, (value: unknown) => boolean>()

function acceptor(schema: TSchema): (value: unknown) => boolean {
  const made = acceptors.get(schema)
  if (made !== undefined) return made
  let compiled: Validator | undefined
  const accepts = (value: unknown): boolean => {
    compiled ??= Compile(schema)
    return compiled.Check(value)
  }
  acceptors.set(schema, accepts)
  return accepts
}

/** Puts a prefix in front of the path of an error, for a part of a larger value. */
export function prefixError<T>(prefix: string, parsed: Parsed<T>): Parsed<T> {
  return parsed.ok ? parsed : refused(`${prefix}${parsed.error.replace(/^\/: /, ': ')}`)
}

// ---- unknown keys ------------------------------------------------------------------------------------------------

/**
 * Removes the keys that a schema does not declare: an added key must neither close the connection nor be stored. Objects
 * that a schema leaves open keep all their keys. The result still has to pass the schema.
 *
 * Returns the same value when there is nothing to remove below it.
 */
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
