/**
 * The basic schemas of the protocol: ids, instants, texts and counts, each with its limit.
 *
 * Objects built with `record` are closed: an undeclared key is reported, not ignored. A title is also the component's
 * name in the OpenAPI document, so each title belongs to one schema only.
 */
import Type, { type TObject, type TProperties, type TSchema, type TUnsafe } from 'typebox'
import { ID_CHARS_MAX, NAME_CHARS_MAX, TEXT_CHARS_MAX, URL_CHARS_MAX, USD_MAX } from './limits.ts'

export function record<P extends TProperties>(title: string, fields: P, description?: string): TObject<P> {
  return Type.Object(fields, {
    title,
    ...(description === undefined ? {} : { description }),
    additionalProperties: false,
  })
}

/**
 * Marks a frame, a key or a branch of a union that the first form of the worker channel lacks: `first-form.ts` leaves
 * it out. Everything that is added to a frame carries this mark.
 */
export const added = <S extends TSchema>(schema: S): S => ({ ...schema, 'x-added': true })

/** An optional key that the first form of the worker channel lacks. */
export const addedKey = <S extends TSchema>(schema: S) => Type.Optional(added(schema))

/** An enumeration of fixed words. */
export function stringEnum<V extends string>(values: readonly V[], description?: string): TUnsafe<V> {
  return Type.Unsafe<V>(Type.Enum([...values], description === undefined ? {} : { description }))
}

export const text = (max: number, description?: string) =>
  Type.String({ maxLength: max, ...(description === undefined ? {} : { description }) })

/** Text with at least one character. */
export const nonEmptyText = (max: number, description?: string) =>
  Type.String({ minLength: 1, maxLength: max, ...(description === undefined ? {} : { description }) })

/** A string with a pattern. `expects` completes the message "must be …". */
export const patternText = (pattern: string, expects: string, max: number) =>
  Type.String({ maxLength: max, pattern, 'x-expects': expects })

export const boundedList = <T extends TSchema>(items: T, max: number) => Type.Array(items, { maxItems: max })

/** An id that switchyard creates, safe as a file name. */
export const Id = patternText(
  '^[A-Za-z0-9][A-Za-z0-9_-]*$',
  'an id of letters, digits, - and _',
  ID_CHARS_MAX,
)
/** An id that another system creates: any short text. */
export const ForeignId = nonEmptyText(ID_CHARS_MAX)
export const Name = text(NAME_CHARS_MAX)
export const Text = text(TEXT_CHARS_MAX)
export const Url = text(URL_CHARS_MAX)
/** A URL that people click on, so it opens a page or a file and never runs a script. */
export const Link = patternText(
  '^(https?|file)://[^\\s]+$',
  'an address that begins with https, http or file',
  URL_CHARS_MAX,
)
/** A link, or an empty text when there is nothing to open. */
export const LinkOrNone = patternText(
  '^((https?|file)://[^\\s]+)?$',
  'empty, or an address that begins with https, http or file',
  URL_CHARS_MAX,
)
export const Instant = patternText(
  '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z$',
  'an instant such as 2026-01-31T12:00:00.000Z',
  24,
)
export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
/** Frames of one lease are numbered from 1. */
export const Seq = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
export const Milliseconds = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
export const Usd = Type.Number({ minimum: 0, maximum: USD_MAX })

/** A JSON object with any content. */
export const AnyObject = Type.Unsafe<Record<string, unknown>>({ type: 'object' })
