/**
 * Turns untrusted text into a checked value, or into one message that names the wrong field and the reason.
 *
 * Two checks run in a row: `parseJson` refuses values that could harm the process whatever they mean (depth, number
 * of keys, prototype keys), and a checker compares the value with a schema. A compiled schema only accepts or
 * rejects; after a rejection `explainMismatch` walks the value again for the message.
 */
import type { Static, TObject, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_KEYS_REFUSED } from './limits.ts'
import { asShape, explainMismatch, problemAt, type Shape } from './schema-errors.ts'
import { removeUnknownKeys } from './unknown-keys.ts'

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

// ---- URL texts to values -----------------------------------------------------------------------------------------

/** A single pair of unreserved characters, which needs no query parser. */
const PLAIN_PAIR = /^([A-Za-z]+)=([A-Za-z0-9_-]*)$/

/** Refuses parameters that the schema does not name, unless it allows others with `additionalProperties: true`. */
export function readQuery<S extends TObject>(schema: S, given: URLSearchParams | string): Parsed<Static<S>> {
  const plain = typeof given === 'string' ? PLAIN_PAIR.exec(given) : null
  if (plain !== null) return readPlain(schema, plain[1] ?? '', plain[2] ?? '')
  const query = new URLSearchParams(given)
  const unknown = [...query.keys()].find((key) => !mayBeGiven(schema, key))
  if (unknown !== undefined) return refuseParameter(schema, unknown)
  return readTexts(schema, (key) => query.getAll(key), '/query')
}

function readPlain<S extends TObject>(schema: S, key: string, text: string): Parsed<Static<S>> {
  if (!mayBeGiven(schema, key)) return refuseParameter(schema, key)
  const field = Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined
  const { type, items } = field === undefined ? NO_FIELD : asShape(field)
  const value = type === 'array' ? [convertText(items?.type, text)] : convertText(type, text)
  // A literal with a computed key would get a shape of its own each time, which slows down each later reader.
  const given: Record<string, unknown> = {}
  if (field !== undefined) given[key] = value
  return prefixError('/query', createChecker(schema)(given))
}

const NO_FIELD: Shape = {}

const mayBeGiven = (schema: TObject, key: string): boolean =>
  Object.hasOwn(schema.properties, key) || asShape(schema).additionalProperties === true

function refuseParameter(schema: TObject, key: string): Parsed<never> {
  const known = Object.keys(schema.properties)
  const expected = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`
  return refused(problemAt(['query', key], `is no parameter of this path; ${expected}`))
}

/** `given`: percent-decoded texts by name. */
export function readParams<S extends TObject>(
  schema: S,
  given: Readonly<Record<string, string>>,
): Parsed<Static<S>> {
  return readTexts(schema, (key) => (Object.hasOwn(given, key) ? [given[key] ?? ''] : []), '/params')
}

/** All values in a URL are text; texts are converted to the schema's numbers and lists before the check. */
function readTexts<S extends TObject>(
  schema: S,
  textsOf: (key: string) => readonly string[],
  part: string,
): Parsed<Static<S>> {
  const value = new Map<string, unknown>()
  for (const [key, field] of Object.entries(schema.properties)) {
    const texts = textsOf(key)
    if (texts.length === 0) continue
    const { type, items } = asShape(field)
    if (type === 'array')
      value.set(
        key,
        texts.map((text) => convertText(items?.type, text)),
      )
    else if (texts.length > 1) return refused(`${part}/${key}: is given more than once`)
    else value.set(key, convertText(type, texts[0] ?? ''))
  }
  return prefixError(part, createChecker(schema)(Object.fromEntries(value)))
}

/** A text that is no number stays text, so that the schema refuses it. */
function convertText(type: string | undefined, text: string): unknown {
  const numeric = type === 'integer' || type === 'number'
  return numeric && /^-?[0-9]{1,16}$/.test(text) ? Number(text) : text
}
