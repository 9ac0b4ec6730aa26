/**
 * Applies Linear's filters to rows.
 *
 * The schema validates filters; this file defines their meaning. All conditions of an object must hold. A condition on
 * a collection holds for at least one of its rows; `every` holds for an empty collection.
 */
import { refused } from './refused.ts'

export type RowFilter = Readonly<Record<string, unknown>>
/** Reads a field of a row for the caller, on whom `isMe` depends. */
export type FieldReader = (row: object, field: string) => unknown

export function matches(row: object, filter: RowFilter, read: FieldReader): boolean {
  return conditionsOf(filter).every(([name, condition]) => {
    if (condition === null || condition === undefined) return true
    if (name === 'null') return condition === false
    if (name === 'and') return filtersOf(condition).every((part) => matches(row, part, read))
    if (name === 'or') return filtersOf(condition).some((part) => matches(row, part, read))
    return holds(row, name, condition as RowFilter, read) // an input object, by the schema
  })
}

const conditions = new WeakMap<RowFilter, readonly [name: string, condition: unknown][]>()

/** Lists the conditions once for all rows, because a query compares them with thousands. */
function conditionsOf(filter: RowFilter): readonly [name: string, condition: unknown][] {
  const known = conditions.get(filter)
  if (known !== undefined) return known
  const listed = Object.entries(filter)
  conditions.set(filter, listed)
  return listed
}

function holds(row: object, name: string, condition: RowFilter, read: FieldReader): boolean {
  const relation = name.startsWith('has') ? /^has(\w+)Relations$/.exec(name)?.[1] : undefined
  if (relation !== undefined) return compares(hasRelation(row, relation, read), condition)
  const value = name === 'id' ? identities(row, condition) : read(row, name)
  if (value === undefined) throw refused('internal', `This double has no ${name} to filter by`)
  if (Array.isArray(value)) return collectionMatches(value, condition, read)
  if (typeof value === 'object' && value !== null) return matches(value, condition, read)
  return compares(value, condition)
}

function collectionMatches(rows: object[], condition: RowFilter, read: FieldReader): boolean {
  const { some, every, length, null: isNull, and, or, rest } = collectionConditionOf(condition)
  const each = (filter: unknown) => (row: object) => matches(row, filter as RowFilter, read) // input objects, by the schema
  return (
    (!some || rows.some(each(some))) &&
    (!every || rows.every(each(every))) &&
    (!length || compares(rows.length, Object(length))) &&
    (typeof isNull !== 'boolean' || isNull === (rows.length === 0)) &&
    (!and || filtersOf(and).every((part) => collectionMatches(rows, part, read))) &&
    (!or || filtersOf(or).some((part) => collectionMatches(rows, part, read))) &&
    (conditionsOf(rest).length === 0 || rows.some(each(rest)))
  )
}

const collectionConditions = new WeakMap<RowFilter, RowFilter & { readonly rest: RowFilter }>()

/** Separates the conditions on a collection from those that any of its rows must meet. */
function collectionConditionOf(condition: RowFilter): RowFilter & { readonly rest: RowFilter } {
  const known = collectionConditions.get(condition)
  if (known !== undefined) return known
  const { some, every, length, null: isNull, and, or, ...rest } = condition
  const separated = { some, every, length, null: isNull, and, or, rest }
  collectionConditions.set(condition, separated)
  return separated
}

/** An issue matches by identifier too: the form of the given values decides. */
function identities(row: object, condition: RowFilter): unknown {
  const { id, identifier } = row as { id: string; identifier?: string } // every row has an id
  const asked = [condition.eq, condition.neq, condition.in, condition.nin].flat()
  return identifier !== undefined && asked.includes(identifier) ? identifier : id
}

function hasRelation(row: object, relation: string, read: FieldReader): boolean {
  const [field, type] = RELATIONS[relation] ?? ['relations', relation.toLowerCase()]
  const rows = read(row, field)
  return Array.isArray(rows) && rows.some((relationRow) => relationRow.type === type)
}

const RELATIONS: Readonly<Record<string, readonly [string, string]>> = {
  BlockedBy: ['inverseRelations', 'blocks'],
  Blocking: ['relations', 'blocks'],
}

// ---- comparators ----------------------------------------------------------------------------------------------------

type Comparator = (value: unknown, condition: unknown) => boolean

function compares(value: unknown, condition: RowFilter): boolean {
  return conditionsOf(condition).every(([name, expected]) => {
    if (name === 'and') return filtersOf(expected).every((each) => compares(value, each))
    if (name === 'or') return filtersOf(expected).some((each) => compares(value, each))
    const comparator = COMPARATORS[name]
    // A missing relation matches no condition on its fields.
    return comparator === undefined ? false : comparator(value, expected)
  })
}

const COMPARATORS: Readonly<Record<string, Comparator>> = {
  null: (value, condition) => condition === null || (value === null) === condition,
  eq: (value, condition) => value === condition,
  neq: (value, condition) => value !== condition,
  in: (value, condition) => Array.isArray(condition) && condition.includes(value),
  nin: (value, condition) => Array.isArray(condition) && !condition.includes(value),
  lt: order((sign) => sign < 0),
  lte: order((sign) => sign <= 0),
  gt: order((sign) => sign > 0),
  gte: order((sign) => sign >= 0),
  eqIgnoreCase: text((value, condition) => lower(value) === lower(condition)),
  neqIgnoreCase: not(text((value, condition) => lower(value) === lower(condition))),
  startsWith: text((value, condition) => value.startsWith(condition)),
  startsWithIgnoreCase: text((value, condition) => lower(value).startsWith(lower(condition))),
  notStartsWith: not(text((value, condition) => value.startsWith(condition))),
  endsWith: text((value, condition) => value.endsWith(condition)),
  notEndsWith: not(text((value, condition) => value.endsWith(condition))),
  contains: text((value, condition) => value.includes(condition)),
  containsIgnoreCase: text((value, condition) => lower(value).includes(lower(condition))),
  notContains: not(text((value, condition) => value.includes(condition))),
  notContainsIgnoreCase: not(text((value, condition) => lower(value).includes(lower(condition)))),
  containsIgnoreCaseAndAccent: text((value, condition) => plain(value).includes(plain(condition))),
}

function text(compare: (value: string, condition: string) => boolean): Comparator {
  return (value, condition) =>
    typeof value === 'string' && typeof condition === 'string' && compare(value, condition)
}

function not(comparator: Comparator): Comparator {
  return (value, condition) => !comparator(value, condition)
}

/** Compares numbers and instants by value, plain dates as text; nothing compares with null. */
function order(isRight: (sign: number) => boolean): Comparator {
  return (value, condition) => {
    if (typeof value === 'number' && typeof condition === 'number') return isRight(value - condition)
    if (typeof value === 'string' && typeof condition === 'string')
      return isRight(value.localeCompare(condition, 'en'))
    return false
  }
}

function lower(value: string): string {
  return value.toLowerCase()
}

function plain(value: string): string {
  return lower(value).normalize('NFD').replace(/\p{M}/gu, '')
}

function filtersOf(condition: unknown): RowFilter[] {
  return Array.isArray(condition) ? condition : []
}
