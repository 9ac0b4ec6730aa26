/**
 * Executable schema: scalars and one resolver for all fields.
 *
 * A field reads the property of the row with its name; a connection reads a list of the row. Missing values are filled
 * by type (null where allowed), because the SDK selects many fields that tests do not need.
 */
import { readFileSync } from 'node:fs'
import {
  buildASTSchema,
  type GraphQLFieldResolver,
  type GraphQLOutputType,
  GraphQLScalarType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isEnumType,
  isListType,
  isNonNullType,
  isScalarType,
  parse,
} from 'graphql'
import { connection, type LinearPageArguments } from './connection.ts'
import { badArgument, refused } from './refused.ts'
import type { LinearRow, UserRow } from './rows.ts'

/** The caller, and lists that rows do not hold themselves, keyed by `Type.field`. */
export interface Asker {
  readonly viewer: UserRow
  readonly scopes: readonly string[]
  /** Remaining quota. */
  readonly limits: () => readonly object[]
  readonly links: Readonly<Record<string, (row: object) => readonly LinearRow[]>>
}

const SDL = parse(readFileSync(new URL('./schema.graphql', import.meta.url), 'utf8'))

/** Durations relate to the workspace's clock. */
export function linearSchema(now: () => number): GraphQLSchema {
  const schema = buildASTSchema(SDL, { assumeValidSDL: true })
  const scalars: Record<string, Partial<GraphQLScalarType>> = {
    DateTime: { serialize: instantText, parseValue: (value) => instantOf(value, now) },
    DateTimeOrDuration: { parseValue: (value) => instantOf(value, now) },
    TimelessDateOrDuration: { parseValue: (value) => String(value) },
  }
  for (const [name, methods] of Object.entries(scalars)) Object.assign(schema.getType(name) ?? {}, methods)
  for (const name of Object.keys(scalars)) literalsAsValues(schema, name)
  for (const type of Object.values(schema.getTypeMap()))
    if (isAbstractType(type)) anyMember(schema, type.name)
  return schema
}

export const resolveField: GraphQLFieldResolver<object, Asker> = (source, args, asker, info) => {
  const place = `${info.parentType.name}.${info.fieldName}`
  const value = asker.links[place]?.(source) ?? read(asker)(source, info.fieldName)
  const answer = typeof value === 'function' ? value.call(source, args, asker) : value
  if (!getNamedType(info.returnType).name.endsWith('Connection'))
    return answer === undefined ? filler(info.returnType) : answer
  if (!Array.isArray(answer)) throw refused('internal', `This double has no rows for ${place}`)
  return connection(answer, args as LinearPageArguments, read(asker)) // the schema says what the arguments are
}

/** Field of a row as the caller sees it. */
export function read(asker: Asker) {
  return (row: object, field: string): unknown => {
    if (field === 'isMe') return row === asker.viewer
    return (row as Record<string, unknown>)[field] // rows carry the schema's names
  }
}

function filler(type: GraphQLOutputType): unknown {
  if (!isNonNullType(type)) return null
  const inner = type.ofType
  if (isListType(inner)) return []
  if (isEnumType(inner)) return inner.getValues()[0]?.value
  if (isScalarType(inner)) return FILLERS[inner.name] ?? {}
  return {}
}

const FILLERS: Readonly<Record<string, unknown>> = {
  ID: '',
  String: '',
  Boolean: false,
  Int: 0,
  Float: 0,
  DateTime: 0,
  TimelessDate: '1970-01-01',
}

// ---- scalars --------------------------------------------------------------------------------------------------------

function instantText(value: unknown): string {
  return new Date(Number(value)).toISOString()
}

const DURATION = /^(-)?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/
const HOUR_MS = 3_600_000
const DURATION_UNITS_MS = [
  8766 * HOUR_MS,
  730.5 * HOUR_MS,
  168 * HOUR_MS,
  24 * HOUR_MS,
  HOUR_MS,
  60_000,
  1000,
]

function instantOf(value: unknown, now: () => number): number {
  const duration = DURATION.exec(String(value))
  const at = duration === null ? Date.parse(String(value)) : now() + durationMs(duration)
  if (Number.isNaN(at)) throw badArgument(`"${value}" is neither a date nor a duration.`)
  return at
}

function durationMs([, minus, ...counts]: RegExpExecArray): number {
  const ms = counts.reduce((sum, count, unit) => sum + Number(count ?? 0) * (DURATION_UNITS_MS[unit] ?? 0), 0)
  return minus ? -ms : ms
}

/** Literals in a query have the same meaning as variables. */
function literalsAsValues(schema: GraphQLSchema, name: string): void {
  const scalar = schema.getType(name)
  if (!(scalar instanceof GraphQLScalarType)) return
  scalar.parseLiteral = (node) => scalar.parseValue('value' in node ? node.value : null)
}

/** No rows exist for unions and interfaces, so the filler uses their first type. */
function anyMember(schema: GraphQLSchema, name: string): void {
  const type = schema.getType(name)
  if (isAbstractType(type)) type.resolveType = () => schema.getPossibleTypes(type)[0]?.name
}
