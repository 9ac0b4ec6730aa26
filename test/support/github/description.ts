/**
 * Checks requests and replies against GitHub's published description of its REST API.
 *
 * `description.json` holds the operations of API version 2022-11-28 that we use, without prose and examples, from
 * github/rest-api-description (MIT licence). Objects are closed where GitHub names their fields, because GitHub
 * silently ignores unknown ones. Two fields differ from the published description, as on the real server: the
 * repository of a head and the line of an outdated comment may be null.
 */
import { existsSync, readFileSync } from 'node:fs'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly nullable?: boolean
  readonly enum?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly oneOf?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}

export interface Operation {
  readonly method: string
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body?: { readonly required: boolean; readonly schema: Schema }
  /** Schema by status; null for a reply without a body. */
  readonly responses: Readonly<Record<string, Schema | null>>
}

interface Description {
  readonly operations: readonly Operation[]
  readonly schemas: Readonly<Record<string, Schema>>
}

export interface Match {
  readonly operation: Operation
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>>
}

const COMPLAINTS_MAX = 20

// A bundled module has another location; bundles run from the root of the project.
const beside = new URL('./description.json', import.meta.url)
const file = existsSync(beside) ? beside : 'test/support/github/description.json'
const description: Description = JSON.parse(readFileSync(file, 'utf8'))
const patterns = description.operations.map((operation) => ({
  operation,
  pattern: patternOf(operation.path),
}))

/** A ref may hold slashes; any other path parameter is one segment. */
function patternOf(path: string): RegExp {
  const source = path.replace(/\{(\w+)\}/g, (_, name) =>
    name === 'ref' ? '(?<ref>.+?)' : `(?<${name}>[^/]+)`,
  )
  return new RegExp(`^${source}$`)
}

export function operationOf(method: string, path: string): Match | undefined {
  for (const { operation, pattern } of patterns) {
    const found = operation.method === method ? pattern.exec(path) : null
    if (found !== null) return { operation, params: decoded(found.groups ?? {}) }
  }
  return undefined
}

function decoded(params: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, safelyDecoded(value)]))
}

function safelyDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

// ---- requests -------------------------------------------------------------------------------------------------------

/** @param path below the root of the REST API; @param body parsed, undefined when there is none */
export function validateRequest(
  method: string,
  path: string,
  query: URLSearchParams,
  body: unknown,
): string[] {
  const match = operationOf(method, path)
  if (match === undefined) return [`${method} ${path}: no such operation`]
  const complaints = [
    ...pathComplaints(match),
    ...queryComplaints(match, query),
    ...bodyComplaints(match, body),
  ]
  return complaints.map((complaint) => `${method} ${match.operation.path}: ${complaint}`)
}

function pathComplaints({ operation, params }: Match): string[] {
  return operation.parameters
    .filter((parameter) => parameter.in === 'path')
    .flatMap(({ name, schema }) => textComplaints(params[name] ?? '', schema, `path ${name}`))
}

function queryComplaints({ operation }: Match, query: URLSearchParams): string[] {
  const known = new Map(
    operation.parameters
      .filter((parameter) => parameter.in === 'query')
      .map((parameter) => [parameter.name, parameter]),
  )
  const given = [...query].flatMap(([name, value]) => {
    const parameter = known.get(name)
    if (parameter === undefined) return [`query ${name} is unknown`]
    return textComplaints(value, parameter.schema, `query ${name}`)
  })
  const missing = [...known.values()].filter(({ name, required }) => required === true && !query.has(name))
  return [...given, ...missing.map(({ name }) => `query ${name} is missing`)]
}

/** Query parameters are text, but may stand for numbers or booleans. */
function textComplaints(text: string, schema: Schema, where: string): string[] {
  const meanings = [text, ...(/^-?\d+$/.test(text) ? [Number(text)] : [])]
  const truths = text === 'true' || text === 'false' ? [text === 'true'] : []
  const each = [...meanings, ...truths].map((value) => complaintsOf(value, schema, where, false))
  return each.find((complaints) => complaints.length === 0) ?? each[each.length - 1] ?? []
}

function bodyComplaints({ operation }: Match, body: unknown): string[] {
  if (operation.body === undefined) return body === undefined ? [] : ['takes no body']
  if (body === undefined) return operation.body.required ? ['the body is missing'] : []
  return complaintsOf(body, operation.body.schema, 'body', true)
}

// ---- replies --------------------------------------------------------------------------------------------------------

/** Problems of a reply; an undescribed refusal needs only a message. */
export function validateResponse(method: string, path: string, status: number, body: unknown): string[] {
  const match = operationOf(method, path)
  if (match === undefined) return [`${method} ${path}: no such operation`]
  const where = `${method} ${match.operation.path} ${status}`
  const schema = match.operation.responses[String(status)]
  if (schema === null) return body === undefined ? [] : [`${where}: has a body`]
  if (schema === undefined && status < 400) return [`${where}: is not a status of this operation`]
  const expected = schema ?? { type: 'object', required: ['message'] }
  return complaintsOf(body, expected, where, false)
}

// ---- schemas --------------------------------------------------------------------------------------------------------

function complaintsOf(value: unknown, schema: Schema, where: string, closed: boolean): string[] {
  const complaints = checked(value, resolved(schema), where, closed)
  return complaints.slice(0, COMPLAINTS_MAX)
}

function resolved(schema: Schema): Schema {
  const target = schema.$ref === undefined ? undefined : description.schemas[schema.$ref]
  return target === undefined ? schema : resolved(target)
}

function checked(value: unknown, schema: Schema, where: string, closed: boolean): string[] {
  if (value === null) return schema.nullable === true || anything(schema) ? [] : [`${where} is null`]
  const typed = typeComplaint(value, schema.type)
  if (typed !== undefined) return [`${where} ${typed}`]
  return [
    ...enumComplaints(value, schema, where),
    ...boundComplaints(value, schema, where),
    ...itemComplaints(value, schema, where, closed),
    ...fieldComplaints(value, schema, where, closed),
    ...choiceComplaints(value, schema, where, closed),
  ]
}

function anything({ type, oneOf, anyOf, allOf }: Schema): boolean {
  const choices = oneOf ?? anyOf
  if (choices !== undefined) return choices.some((choice) => resolved(choice).nullable === true)
  return type === undefined && allOf === undefined
}

function typeComplaint(value: unknown, type: string | undefined): string | undefined {
  if (type === undefined || typeOf(value) === type) return undefined
  if (type === 'number' && typeOf(value) === 'integer') return undefined
  return `is of type ${typeOf(value)}, not ${type}`
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

function enumComplaints(value: unknown, schema: Schema, where: string): string[] {
  if (schema.enum === undefined || schema.enum.includes(value)) return []
  return [`${where} is ${JSON.stringify(value)}, not one of ${schema.enum.join(', ')}`]
}

function boundComplaints(value: unknown, schema: Schema, where: string): string[] {
  const { minimum = -Infinity, maximum = Infinity, minLength = 0, minItems = 0, maxItems = Infinity } = schema
  if (typeof value === 'number' && (value < minimum || value > maximum)) return [`${where} is out of bounds`]
  if (typeof value === 'string' && value.length < minLength) return [`${where} is too short`]
  const wrong = Array.isArray(value) && (value.length < minItems || value.length > maxItems)
  return wrong ? [`${where} holds too few or too many`] : []
}

function itemComplaints(value: unknown, { items }: Schema, where: string, closed: boolean): string[] {
  if (!Array.isArray(value) || items === undefined) return []
  return value.flatMap((item, at) => complaintsOf(item, items, `${where}[${at}]`, closed))
}

function fieldComplaints(value: unknown, schema: Schema, where: string, closed: boolean): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  const missing = (schema.required ?? []).filter((name) => !(name in value))
  const given = Object.entries(value).flatMap(([name, field]) => {
    const known = schema.properties?.[name]
    if (known !== undefined) return complaintsOf(field, known, `${where}.${name}`, closed)
    return closed && isClosed(schema) ? [`${where}.${name} is unknown`] : []
  })
  return [...missing.map((name) => `${where}.${name} is missing`), ...given]
}

function isClosed({ properties, additionalProperties, oneOf, anyOf, allOf }: Schema): boolean {
  if (oneOf !== undefined || anyOf !== undefined || allOf !== undefined) return false
  return properties !== undefined && (additionalProperties ?? false) === false
}

/** For alternatives, reports the problems of the closest one. */
function choiceComplaints(value: unknown, schema: Schema, where: string, closed: boolean): string[] {
  const all = (schema.allOf ?? []).flatMap((part) => complaintsOf(value, part, where, closed))
  const choices = schema.oneOf ?? schema.anyOf
  if (choices === undefined) return all
  const each = choices.map((choice) => complaintsOf(value, choice, where, closed))
  const nearest = each.reduce((best, complaints) => (complaints.length < best.length ? complaints : best))
  return [...all, ...nearest]
}
