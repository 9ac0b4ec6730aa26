/** GraphQL connections with cursors, and GitHub's limits for them. */
import { GraphQLError } from 'graphql'

/** Values of fields, or functions for values that are computed on request. */
export type GraphqlView = Record<string, unknown>

const PAGE_ITEMS_MAX = 100

/** A GraphQL error with GitHub's `type`. */
export function typedError(type: string, message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { type } })
}

export interface GithubPageArguments {
  readonly first?: number | null
  readonly last?: number | null
  readonly after?: string | null
  readonly before?: string | null
}

export async function connection<T>(
  name: string,
  all: readonly T[],
  args: GithubPageArguments,
  view: (node: T) => Promise<GraphqlView>,
): Promise<GraphqlView> {
  const size = sizeOf(name, args)
  const from = args.after ? indexOf(args.after) + 1 : 0
  const to = args.before ? indexOf(args.before) : all.length
  const first = args.first == null ? Math.max(from, to - size) : from
  const end = Math.min(to, first + size)
  const nodes = await Promise.all(all.slice(first, end).map(view))
  return {
    nodes,
    edges: nodes.map((node, at) => ({ cursor: cursorAt(first + at), node })),
    totalCount: all.length,
    pageInfo: {
      hasNextPage: end < all.length,
      hasPreviousPage: first > 0,
      startCursor: nodes.length > 0 ? cursorAt(first) : null,
      endCursor: nodes.length > 0 ? cursorAt(end - 1) : null,
    },
  }
}

function sizeOf(name: string, { first, last }: GithubPageArguments): number {
  const size = first ?? last
  if (size == null)
    throw typedError(
      'MISSING_PAGINATION_BOUNDARIES',
      `You must provide a \`first\` or \`last\` value to properly paginate the \`${name}\` connection.`,
    )
  if (size > PAGE_ITEMS_MAX)
    throw typedError(
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
    throw typedError('INVALID_CURSOR_ARGUMENTS', `\`${cursor}\` does not appear to be a valid cursor.`)
  return index
}
