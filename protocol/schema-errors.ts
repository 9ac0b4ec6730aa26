/**
 * Explains why a value does not match a schema: the first real cause, as `/path/to/field: what it must be`.
 *
 * Called only after a compiled schema has rejected the value. The function walks value and schema side by side once;
 * of a union it follows only the branch that the value names, so a hostile value costs no more than its size. The
 * message repeats a value only where it cannot be a secret: numbers, booleans, and words where a fixed word was
 * expected; never free text, and nothing under `x-secret`.
 */
import type { TSchema } from 'typebox'
import { ERROR_PATH_CHARS_MAX, ERROR_VALUE_CHARS_MAX } from './limits.ts'
import { nearestWord } from './nearest-word.ts'
import { shortenEnd } from './shorten.ts'

/** The JSON Schema keywords that protocol/ uses. A test checks that no other keyword occurs. */
export interface Shape {
  readonly title?: string
  readonly description?: string
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Shape[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly required?: readonly string[]
  readonly patternProperties?: Readonly<Record<string, Shape>>
  readonly additionalProperties?: boolean
  readonly maxProperties?: number
  readonly minProperties?: number
  readonly items?: Shape
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly 'x-expects'?: string
  readonly 'x-expects-key'?: string
  readonly 'x-secret'?: boolean
  readonly 'x-added'?: boolean
}

/** A typebox schema is a JSON Schema document; this function types it as one. */
export const asShape = (schema: TSchema): Shape => schema

interface Problem {
  readonly path: readonly string[]
  readonly message: string
}

type MaybeProblem = Problem | undefined

export function explainMismatch(schema: TSchema, value: unknown): string {
  const found = findProblem(asShape(schema), value, [])
  return found === undefined
    ? problemAt([], 'is not of the expected form')
    : problemAt(found.path, found.message)
}

/** Builds an error message: the path, then the problem. Keys are foreign text, so they are made printable. */
export const problemAt = (path: readonly string[], message: string): string =>
  `${printable(shortenEnd(`/${path.join('/')}`, ERROR_PATH_CHARS_MAX))}: ${message}`

/**
 * Replaces control characters and characters that change the text direction, with which a key could forge a log line.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '�')
}

// ---- one value ---------------------------------------------------------------------------------------------------

function findProblem(schema: Shape, value: unknown, path: readonly string[]): MaybeProblem {
  if (schema.anyOf !== undefined) return checkUnion(branches(schema), value, path)
  const message = checkEnum(schema, value) ?? checkType(schema, value)
  if (message !== undefined) return { path, message }
  if (isObject(value)) return checkObject(schema, value, path)
  if (Array.isArray(value)) return checkList(schema, value, path)
  const scalar = typeof value === 'string' ? checkString(schema, value) : checkNumber(schema, value)
  return scalar === undefined ? undefined : { path, message: scalar }
}

function checkEnum(schema: Shape, value: unknown): string | undefined {
  const allowed = schema.enum ?? ('const' in schema ? [schema.const] : undefined)
  if (allowed === undefined || allowed.includes(value)) return undefined
  return `must be ${describeAllowed(allowed)}, not ${describeWord(value, schema)}`
}

function checkType(schema: Shape, value: unknown): string | undefined {
  if (schema.type === undefined || isOfType(schema.type, value)) return undefined
  return `must be ${typeNames[schema.type] ?? schema.type}, not ${describeValue(value, schema)}`
}

function checkString(schema: Shape, value: string): string | undefined {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema
  if (isShorter(value, minLength)) {
    return minLength === 1 ? 'must not be empty' : `must have at least ${minLength} characters`
  }
  if (isLonger(value, maxLength)) return `must have at most ${maxLength} characters`
  if (schema.pattern === undefined || new RegExp(schema.pattern, 'u').test(value)) return undefined
  return `must be ${schema['x-expects'] ?? `of the form ${schema.pattern}`}`
}

function checkNumber(schema: Shape, value: unknown): string | undefined {
  if (typeof value !== 'number') return undefined
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity } = schema
  if (value < minimum) return `must be at least ${minimum}, not ${value}`
  if (value > maximum) return `must be at most ${maximum}, not ${value}`
  return value <= exclusiveMinimum ? `must be more than ${exclusiveMinimum}, not ${value}` : undefined
}

function checkList(schema: Shape, value: readonly unknown[], path: readonly string[]): MaybeProblem {
  const { minItems = 0, maxItems = Infinity, items } = schema
  if (value.length < minItems) return { path, message: `must have at least ${minItems} entries` }
  if (value.length > maxItems) return { path, message: `must have at most ${maxItems} entries` }
  if (items === undefined) return undefined
  for (const [index, item] of value.entries()) {
    const found = findProblem(items, item, [...path, String(index)])
    if (found !== undefined) return found
  }
  return undefined
}

// ---- objects -----------------------------------------------------------------------------------------------------

/**
 * Reports a fault inside a known key before an unknown key, and that before a missing key, because a typo causes both
 * of the latter.
 */
function checkObject(
  schema: Shape,
  value: Readonly<Record<string, unknown>>,
  path: readonly string[],
): MaybeProblem {
  const keys = Object.keys(value)
  const { minProperties = 0, maxProperties = Infinity } = schema
  if (keys.length > maxProperties) return { path, message: `must have at most ${maxProperties} keys` }
  if (keys.length < minProperties) return { path, message: `must have at least ${minProperties} keys` }
  return (
    checkEntries(schema, value, keys, path) ??
    checkUnknownKeys(schema, keys, path) ??
    checkRequired(schema, value, path)
  )
}

function checkEntries(
  schema: Shape,
  value: Readonly<Record<string, unknown>>,
  keys: readonly string[],
  path: readonly string[],
): MaybeProblem {
  for (const key of keys) {
    const inner = value[key] === undefined ? undefined : propertyShape(schema, key)
    const found = inner === undefined ? undefined : findProblem(inner, value[key], [...path, key])
    if (found !== undefined) return found
  }
  return undefined
}

function checkUnknownKeys(schema: Shape, keys: readonly string[], path: readonly string[]): MaybeProblem {
  if (schema.additionalProperties !== false) return undefined
  const key = keys.find((name) => propertyShape(schema, name) === undefined)
  if (key === undefined) return undefined
  const expects = schema['x-expects-key']
  if (expects !== undefined) return { path: [...path, key], message: `its name must be ${expects}` }
  const near = nearestWord(key, Object.keys(schema.properties ?? {}))
  return {
    path: [...path, key],
    message: near === undefined ? 'unknown key' : `unknown key, did you mean ${near}?`,
  }
}

function checkRequired(
  schema: Shape,
  value: Readonly<Record<string, unknown>>,
  path: readonly string[],
): MaybeProblem {
  const key = schema.required?.find((name) => value[name] === undefined)
  return key === undefined ? undefined : { path: [...path, key], message: 'is required' }
}

export function propertyShape(schema: Shape, key: string): Shape | undefined {
  if (schema.properties !== undefined && Object.hasOwn(schema.properties, key)) return schema.properties[key]
  for (const [pattern, inner] of Object.entries(schema.patternProperties ?? {})) {
    if (new RegExp(pattern, 'u').test(key)) return inner
  }
  return undefined
}

// ---- unions ------------------------------------------------------------------------------------------------------

/** The keys that identify a record of a union. */
const TAGS = ['type', 'kind', 'status'] as const

function branches(schema: Shape): Shape[] {
  return schema.anyOf === undefined ? [schema] : schema.anyOf.flatMap(branches)
}

/** Returns the record of a union that a value belongs to; undefined when the value does not say which. */
export function chooseBranch(schema: Shape, value: unknown): Shape | undefined {
  if (!isObject(value)) return undefined
  const union = branches(schema)
  const tag = TAGS.find((key) => union.every((branch) => tagOf(branch, key) !== undefined))
  return tag === undefined ? undefined : union.find((branch) => tagOf(branch, tag) === value[tag])
}

function checkUnion(union: readonly Shape[], value: unknown, path: readonly string[]): MaybeProblem {
  const tag = TAGS.find((key) => union.every((branch) => tagOf(branch, key) !== undefined))
  if (tag !== undefined && isObject(value)) return checkTagged(union, tag, value, path)
  const likely = union.filter(
    (branch) => checkEnum(branch, value) === undefined && checkType(branch, value) === undefined,
  )
  if (likely.length === 0) return { path, message: describeMismatch(union, value) }
  const found = likely.map((branch) => findProblem(branch, value, path))
  return found.includes(undefined) ? undefined : deepestProblem(found)
}

function checkTagged(
  union: readonly Shape[],
  tag: string,
  value: Readonly<Record<string, unknown>>,
  path: readonly string[],
): MaybeProblem {
  const tagValue = value[tag]
  const chosen = union.filter((branch) => tagOf(branch, tag) === tagValue)
  if (chosen.length > 0) return deepestProblem(chosen.map((branch) => findProblem(branch, value, path)))
  if (tagValue === undefined) return { path: [...path, tag], message: 'is required' }
  const allowed = union.map((branch) => tagOf(branch, tag))
  return {
    path: [...path, tag],
    message: `must be ${describeAllowed(allowed)}, not ${describeWord(tagValue, {})}`,
  }
}

function tagOf(branch: Shape, key: string): unknown {
  return branch.properties?.[key]?.const
}

function deepestProblem(found: readonly MaybeProblem[]): MaybeProblem {
  return found.reduce((best, next) => ((next?.path.length ?? -1) > (best?.path.length ?? -1) ? next : best))
}

function describeMismatch(union: readonly Shape[], value: unknown): string {
  const names = union.map((branch) =>
    branch.enum !== undefined
      ? describeAllowed(branch.enum)
      : (typeNames[branch.type ?? ''] ?? describeAllowed([branch.const])),
  )
  return `must be ${[...new Set(names)].join(' or ')}, not ${describeValue(value, union.find((one) => one['x-secret']) ?? {})}`
}

// ---- words of the messages -----------------------------------------------------------------------------------------

const typeNames: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'a list',
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  null: 'null',
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'object') return isObject(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'number') return Number.isFinite(value)
  if (type === 'null') return value === null
  return typeof value === type
}

function describeAllowed(allowed: readonly unknown[]): string {
  const words = allowed.map((value) => JSON.stringify(value))
  return words.length === 1 ? `${words[0]}` : `one of ${words.join(', ')}`
}

function describeValue(value: unknown, schema: Shape): string {
  if (value === null || value === undefined) return String(value)
  const open = schema['x-secret'] !== true && (typeof value === 'number' || typeof value === 'boolean')
  if (open) return String(value)
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'boolean' ? 'a truth value' : (typeNames[typeof value] ?? typeof value)
}

/** Repeats a wrong word where a fixed word was expected: it is a typo, and repeating it helps. */
function describeWord(value: unknown, schema: Shape): string {
  if (typeof value !== 'string' || value.length > ERROR_VALUE_CHARS_MAX) return describeValue(value, schema)
  return JSON.stringify(printable(value))
}

function isShorter(value: string, min: number): boolean {
  return value.length < min || (value.length < min * 2 && [...value].length < min)
}

function isLonger(value: string, max: number): boolean {
  return value.length > max && (value.length > max * 2 || [...value].length > max)
}
