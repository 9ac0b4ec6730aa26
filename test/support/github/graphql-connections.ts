/** Pages of the GraphQL half: connections with cursors, and the bounds that GitHub sets to what is asked at once. */
import { GraphQLError } from 'graphql'

/** What a field answers: values, and functions for what is only made when it is asked for. */
export type View = Record<string, unknown>

const PAGE_ITEMS_MAX = 100

/** A failure as GitHub tells them: with a type. */
export function typed(type: string, message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { type } })
}

export interface PageWish {
  readonly first?: number | null
  readonly last?: number | null
  readonly after?: string | null
  readonly before?: string | null
}

export async function connection<T>(
  name: string,
  all: readonly T[],
  wish: PageWish,
  view: (one: T) => Promise<View>,
): Promise<View> {
  const size = sizeOf(name, wish)
  const from = wish.after ? indexOf(wish.after) + 1 : 0
  const to = wish.before ? indexOf(wish.before) : all.length
  const first = wish.first == null ? Math.max(from, to - size) : from
  const end = Math.min(to, first + size)
  const nodes = await Promise.all(all.slice(first, end).map(view))
  return {
    nodes,
    edges: nodes.map((one, at) => ({ cursor: cursorAt(first + at), node: one })),
    totalCount: all.length,
    pageInfo: {
      hasNextPage: end < all.length,
      hasPreviousPage: first > 0,
      startCursor: nodes.length > 0 ? cursorAt(first) : null,
      endCursor: nodes.length > 0 ? cursorAt(end - 1) : null,
    },
  }
}

function sizeOf(name: string, { first, last }: PageWish): number {
  const size = first ?? last
  if (size == null)
    throw typed(
      'MISSING_PAGINATION_BOUNDARIES',
      `You must provide a \`first\` or \`last\` value to properly paginate the \`${name}\` connection.`,
    )
  if (size > PAGE_ITEMS_MAX)
    throw typed(
      'EXCESSIVE_PAGINATION',
      `Requesting ${size} records on the \`${name}\` connection exceeds the \`first\` limit of ${PAGE_ITEMS_MAX} records.`,
    )
  return size
}

function cursorAt(index: number): string {
  return Buffer.from(`cursor:v2:${index}`).toString('base64')
}

function indexOf(cursor: string): number {
  const index = Number(Buffer.from(cursor, 'base64').toString('utf8').split(':')[2])
  if (!Number.isInteger(index))
    throw typed('INVALID_CURSOR_ARGUMENTS', `\`${cursor}\` does not appear to be a valid cursor.`)
  return index
}
