/**
 * Relay connections over rows: filtered, sorted and paged by opaque cursors.
 *
 * The newest row comes first, as in Linear. A cursor holds the row and its position, so a page continues correctly even
 * when the row has moved or is gone. A row that changes between two pages may appear twice or not at all, as with the
 * real Linear.
 */
import { type FieldReader, matches, type RowFilter } from './filter.ts'
import { badArgument, refused } from './refused.ts'
import type { LinearRow } from './rows.ts'

export const PAGE_DEFAULT = 50
export const PAGE_MAX = 250

export interface LinearPageArguments {
  readonly filter?: RowFilter | null
  readonly first?: number | null
  readonly after?: string | null
  readonly last?: number | null
  readonly before?: string | null
  readonly orderBy?: 'createdAt' | 'updatedAt' | null
  readonly includeArchived?: boolean | null
  readonly sort?: readonly RowFilter[] | null
}

export interface LinearConnection {
  readonly edges: readonly { readonly node: LinearRow; readonly cursor: string }[]
  readonly nodes: readonly LinearRow[]
  readonly pageInfo: object
}

interface RowPosition {
  readonly row: LinearRow
  readonly key: number
}

export function connection(
  rows: readonly LinearRow[],
  args: LinearPageArguments,
  read: FieldReader,
): LinearConnection {
  checkSizes(args)
  const { filter, includeArchived } = args
  const found = rows
    .filter((row) => includeArchived === true || !row.archivedAt)
    .filter((row) => !filter || matches(row, filter, read))
  return page(inOrder(found, args), args)
}

function page(
  places: readonly RowPosition[],
  { first, after, last, before }: LinearPageArguments,
): LinearConnection {
  const from = after ? positionAfter(places, after) : 0
  const to = before ? positionOf(places, before) : places.length
  const isBackward = typeof last === 'number'
  const size = (isBackward ? last : first) ?? PAGE_DEFAULT
  const start = isBackward ? Math.max(from, to - size) : from
  const end = isBackward ? to : Math.min(to, from + size)
  const edges = places.slice(start, end).map((place) => ({ node: place.row, cursor: cursorOf(place) }))
  return {
    edges,
    nodes: edges.map(({ node }) => node),
    pageInfo: {
      hasPreviousPage: start > 0,
      hasNextPage: end < places.length,
      startCursor: edges[0]?.cursor ?? null,
      endCursor: edges.at(-1)?.cursor ?? null,
    },
  }
}

function checkSizes({ first, last, after, before, sort }: LinearPageArguments): void {
  for (const [name, size] of Object.entries({ first, last })) {
    if (typeof size !== 'number') continue
    if (size < 1) throw badArgument(`${name} must not be less than 1.`)
    if (size > PAGE_MAX) throw badArgument(`${name} must not be greater than ${PAGE_MAX}.`)
  }
  if (first && (last || before)) throw badArgument('first cannot be used together with last or before.')
  if (last && after) throw badArgument('last cannot be used together with after.')
  const sortedBy = (sort ?? []).flatMap((order) => Object.keys(order))
  if (sortedBy.length > 1 || sortedBy.some((field) => !/^(updated|created)At$/.test(field)))
    throw refused('internal', 'This double sorts by createdAt or updatedAt only')
}

function inOrder(rows: readonly LinearRow[], { orderBy, sort }: LinearPageArguments): RowPosition[] {
  const [sortBy] = sort ?? []
  const isByChange = sortBy ? 'updatedAt' in sortBy : orderBy === 'updatedAt'
  const sign = Object(sortBy?.updatedAt ?? sortBy?.createdAt).order === 'Ascending' ? 1 : -1
  return rows
    .map((row) => ({ row, key: (isByChange ? row.updatedAt : row.createdAt) * sign }))
    .sort((a, b) => a.key - b.key || (a.row.id < b.row.id ? -1 : 1))
}

// ---- cursors --------------------------------------------------------------------------------------------------------

function cursorOf({ row, key }: RowPosition): string {
  return Buffer.from(`${key} ${row.id}`).toString('base64url')
}

function positionAfter(places: readonly RowPosition[], cursor: string): number {
  const at = positionOf(places, cursor)
  return at + (places[at] && cursorOf(places[at]) === cursor ? 1 : 0)
}

/** First position at or after the cursor. */
function positionOf(places: readonly RowPosition[], cursor: string): number {
  const [, key, id = ''] = /^(-?\d+) (\S+)$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (key === undefined) throw badArgument('the cursor is not one of ours.')
  const at = places.findIndex(
    (place) => place.key > Number(key) || (place.key === Number(key) && place.row.id >= id),
  )
  return at < 0 ? places.length : at
}
