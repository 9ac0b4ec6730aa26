/**
 * Linear's filters over rows: comparators at the leaves, relations on the way, `and` and `or` anywhere.
 *
 * Which filters there are is the schema's to say; here only what they mean. Everything in one object must hold. A
 * collection filtered as if it were one row means "at least one"; `every` holds for an empty one.
 */
import { refused } from './refused.ts'

export type Filter = Readonly<Record<string, unknown>>
/** Reads a field of a row for whoever asks (`isMe` depends on that). */
export type Read = (row: object, field: string) => unknown

export function matches(row: object, filter: Filter, read: Read): boolean {
  return Object.entries(filter).every(([name, wish]) => {
    if (wish === null || wish === undefined) return true
    if (name === 'null') return wish === false
    if (name === 'and') return filtersOf(wish).every((one) => matches(row, one, read))
    if (name === 'or') return filtersOf(wish).some((one) => matches(row, one, read))
    return holds(row, name, wish as Filter, read) // an input object, by the schema
  })
}

function holds(row: object, name: string, wish: Filter, read: Read): boolean {
  const relation = /^has(\w+)Relations$/.exec(name)?.[1]
  if (relation !== undefined) return compares(hasRelation(row, relation, read), wish)
  const value = name === 'id' ? identities(row, wish) : read(row, name)
  if (value === undefined) throw refused('internal', `This double has no ${name} to filter by`)
  if (Array.isArray(value)) return collectionMatches(value, wish, read)
  if (typeof value === 'object' && value !== null) return matches(value, wish, read)
  return compares(value, wish)
}

function collectionMatches(rows: object[], wish: Filter, read: Read): boolean {
  const { some, every, length, null: isNull, and, or, ...any } = wish
  const each = (filter: unknown) => (row: object) => matches(row, filter as Filter, read) // input objects, by the schema
  return (
    (!some || rows.some(each(some))) &&
    (!every || rows.every(each(every))) &&
    (!length || compares(rows.length, Object(length))) &&
    (typeof isNull !== 'boolean' || isNull === (rows.length === 0)) &&
    (!and || filtersOf(and).every((one) => collectionMatches(rows, one, read))) &&
    (!or || filtersOf(or).some((one) => collectionMatches(rows, one, read))) &&
    (Object.keys(any).length === 0 || rows.some(each(any)))
  )
}

/** An issue is also found by its identifier: the values asked for decide which of the two is compared. */
function identities(row: object, wish: Filter): unknown {
  const { id, identifier } = row as { id: string; identifier?: string } // every row has an id
  const asked = [wish.eq, wish.neq, wish.in, wish.nin].flat()
  return identifier !== undefined && asked.includes(identifier) ? identifier : id
}

function hasRelation(row: object, relation: string, read: Read): boolean {
  const [field, type] = RELATIONS[relation] ?? ['relations', relation.toLowerCase()]
  const rows = read(row, field)
  return Array.isArray(rows) && rows.some((one) => one.type === type)
}

const RELATIONS: Readonly<Record<string, readonly [string, string]>> = {
  BlockedBy: ['inverseRelations', 'blocks'],
  Blocking: ['relations', 'blocks'],
}

// ---- comparators -------------------------------------------------------------------------------------------------

type Comparator = (value: unknown, wish: unknown) => boolean

function compares(value: unknown, wish: Filter): boolean {
  return Object.entries(wish).every(([name, one]) => {
    if (name === 'and') return filtersOf(one).every((each) => compares(value, each))
    if (name === 'or') return filtersOf(one).some((each) => compares(value, each))
    const comparator = COMPARATORS[name]
    // A relation that is not there has none of the fields asked about.
    return comparator === undefined ? false : comparator(value, one)
  })
}

const COMPARATORS: Readonly<Record<string, Comparator>> = {
  null: (value, wish) => wish === null || (value === null) === wish,
  eq: (value, wish) => value === wish,
  neq: (value, wish) => value !== wish,
  in: (value, wish) => Array.isArray(wish) && wish.includes(value),
  nin: (value, wish) => Array.isArray(wish) && !wish.includes(value),
  lt: order((sign) => sign < 0),
  lte: order((sign) => sign <= 0),
  gt: order((sign) => sign > 0),
  gte: order((sign) => sign >= 0),
  eqIgnoreCase: text((value, wish) => lower(value) === lower(wish)),
  neqIgnoreCase: not(text((value, wish) => lower(value) === lower(wish))),
  startsWith: text((value, wish) => value.startsWith(wish)),
  startsWithIgnoreCase: text((value, wish) => lower(value).startsWith(lower(wish))),
  notStartsWith: not(text((value, wish) => value.startsWith(wish))),
  endsWith: text((value, wish) => value.endsWith(wish)),
  notEndsWith: not(text((value, wish) => value.endsWith(wish))),
  contains: text((value, wish) => value.includes(wish)),
  containsIgnoreCase: text((value, wish) => lower(value).includes(lower(wish))),
  notContains: not(text((value, wish) => value.includes(wish))),
  notContainsIgnoreCase: not(text((value, wish) => lower(value).includes(lower(wish)))),
  containsIgnoreCaseAndAccent: text((value, wish) => plain(value).includes(plain(wish))),
}

function text(compare: (value: string, wish: string) => boolean): Comparator {
  return (value, wish) => typeof value === 'string' && typeof wish === 'string' && compare(value, wish)
}

function not(comparator: Comparator): Comparator {
  return (value, wish) => !comparator(value, wish)
}

/** Numbers and instants by size, dates without a time by their text; nothing is before or after null. */
function order(isRight: (sign: number) => boolean): Comparator {
  return (value, wish) => {
    if (typeof value === 'number' && typeof wish === 'number') return isRight(value - wish)
    if (typeof value === 'string' && typeof wish === 'string') return isRight(value.localeCompare(wish, 'en'))
    return false
  }
}

function lower(value: string): string {
  return value.toLowerCase()
}

function plain(value: string): string {
  return lower(value).normalize('NFD').replace(/\p{M}/gu, '')
}

function filtersOf(wish: unknown): Filter[] {
  return Array.isArray(wish) ? wish : []
}
