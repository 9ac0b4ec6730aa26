/**
 * Turns the texts of a URL, its query and its path's parameters, into checked values.
 *
 * Supervisors poll with a query of one plain pair, and such a query is read without a parser.
 */
import type { Static, TObject } from 'typebox'
import { createChecker, type Parsed, prefixError } from './parse.ts'
import { asShape, problemAt, type Shape } from './schema-errors.ts'

export type QueryReader<S extends TObject> = (given: URLSearchParams | string) => Parsed<Static<S>>

/** Refuses parameters that the schema does not name, unless it allows others with `additionalProperties: true`. */
export function createQueryReader<S extends TObject>(schema: S): QueryReader<S> {
  const fields = Object.entries(schema.properties).map(([key, field]) => ({ key, ...asShape(field) }))
  const check = createChecker(schema)
  return (given) => {
    const plain = typeof given === 'string' ? readPlain(fields, given) : undefined
    return plain === undefined
      ? readPairs(schema, new URLSearchParams(given))
      : prefixError('/query', check(plain))
  }
}

function readPlain(fields: readonly (Shape & { readonly key: string })[], query: string): object | undefined {
  for (const { key, type, items } of fields) {
    const text = readPlainPair(query, key)
    if (text === undefined) continue
    // A literal with a computed key would get a shape of its own each time, which slows down each later reader.
    const given: Record<string, unknown> = {}
    given[key] = type === 'array' ? [convertText(items?.type, text)] : convertText(type, text)
    return given
  }
  return undefined
}

/** The value in a query of only this pair. Undefined for other queries, and for a value that may be encoded. */
export function readPlainPair(query: string, key: string): string | undefined {
  if (query.charAt(key.length) !== '=' || !query.startsWith(key)) return undefined
  const start = key.length + 1
  return isPlain(query, start) ? query.slice(start) : undefined
}

/** Whether text has only characters that need no escape in a URL nor in JSON. */
export function isPlain(text: string, start = 0): boolean {
  for (let at = start; at < text.length; at++) if (PLAIN[text.charCodeAt(at)] !== true) return false
  return true
}

/** By character code. */
const PLAIN = Array.from({ length: 0x80 }, (_, code) => /[A-Za-z0-9_-]/.test(String.fromCharCode(code)))

function readPairs<S extends TObject>(schema: S, query: URLSearchParams): Parsed<Static<S>> {
  const unknown = [...query.keys()].find((key) => !mayBeGiven(schema, key))
  if (unknown !== undefined) return refuseParameter(schema, unknown)
  return readTexts(schema, (key) => query.getAll(key), '/query')
}

const mayBeGiven = (schema: TObject, key: string): boolean =>
  Object.hasOwn(schema.properties, key) || asShape(schema).additionalProperties === true

function refuseParameter(schema: TObject, key: string): Parsed<never> {
  const known = Object.keys(schema.properties)
  const expected = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`
  return { ok: false, error: problemAt(['query', key], `is no parameter of this path; ${expected}`) }
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
    else if (texts.length > 1) return { ok: false, error: `${part}/${key}: is given more than once` }
    else value.set(key, convertText(type, texts[0] ?? ''))
  }
  return prefixError(part, createChecker(schema)(Object.fromEntries(value)))
}

/** A text that is no number stays text, so that the schema refuses it. */
function convertText(type: string | undefined, text: string): unknown {
  const numeric = type === 'integer' || type === 'number'
  return numeric && /^-?[0-9]{1,16}$/.test(text) ? Number(text) : text
}
