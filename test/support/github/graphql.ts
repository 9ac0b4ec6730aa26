/**
 * GraphQL API of the fake: graphql-js executes queries against GitHub's schema. Almost every failure has status 200 and
 * a `type`, as on GitHub.
 */
import {
  buildSchema,
  type ExecutionResult,
  type GraphQLError,
  type GraphQLFormattedError,
  graphql,
} from 'graphql'
import type { GithubFaults } from './faults.ts'
import { costOf } from './graphql-cost.ts'
import { mutationRoots } from './graphql-mutations.ts'
import { GITHUB_SCHEMA } from './graphql-schema.ts'
import { type GraphqlContext, queryRoots } from './graphql-views.ts'
import type { History } from './history.ts'
import type { Window } from './quotas.ts'
import type { GithubUrls } from './repo-shapes.ts'
import type { GithubViewer, GithubWorld } from './world.ts'

export interface GraphqlReply {
  readonly status: number
  readonly body: unknown
  /** Points of the hourly budget. */
  readonly cost: number
}

const schema = buildSchema(GITHUB_SCHEMA)

export class GithubGraphql {
  readonly #world: GithubWorld
  readonly #history: History
  readonly #faults: GithubFaults

  constructor(world: GithubWorld, history: History, faults: GithubFaults) {
    this.#world = world
    this.#history = history
    this.#faults = faults
  }

  async answer(
    text: string,
    viewer: GithubViewer,
    places: GithubUrls,
    window: Window,
  ): Promise<GraphqlReply> {
    const order = parseOperation(text)
    if (order === undefined) return { status: 400, body: { message: 'Problems parsing JSON' }, cost: 0 }
    if (order.query === '') return { status: 200, body: { errors: [{ message: NO_QUERY }] }, cost: 0 }
    const cost = costOf(order.query, order.variables)
    const sight: GraphqlContext = {
      world: this.#world,
      history: this.#history,
      down: this.#faults.down,
      viewer,
      api: places.api,
      web: places.web,
      rate: { cost, limit: window.limit, used: window.used + cost, resetMs: window.resetMs },
    }
    const result = await graphql({
      schema,
      source: order.query,
      rootValue: { ...queryRoots(sight), ...mutationRoots(sight) },
      variableValues: order.variables,
      ...(order.operationName === undefined ? {} : { operationName: order.operationName }),
    })
    return { status: 200, body: toReplyBody(result), cost }
  }
}

const NO_QUERY = 'A query attribute must be specified and must be a string.'

interface GraphqlOperation {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly operationName: string | undefined
}

function parseOperation(text: string): GraphqlOperation | undefined {
  try {
    const { query, variables, operationName } = JSON.parse(text)
    return {
      query: typeof query === 'string' ? query : '',
      variables: typeof variables === 'object' && variables !== null ? variables : {},
      operationName: typeof operationName === 'string' ? operationName : undefined,
    }
  } catch {
    return undefined
  }
}

/** A request that was not executed has no data. */
function toReplyBody({ data, errors }: ExecutionResult): unknown {
  const failures = errors?.map((error) => failure(error))
  if (data === undefined) return { errors: failures }
  return failures === undefined ? { data } : { data, errors: failures }
}

function failure(error: GraphQLError): unknown {
  const { message, locations, path, extensions }: GraphQLFormattedError = error.toJSON()
  const type = extensions?.type
  if (typeof type === 'string') return { type, path, locations, message }
  const code = /^Cannot query field/.test(message) ? { extensions: { code: 'undefinedField' } } : {}
  return { ...(path === undefined ? {} : { path }), ...code, locations, message }
}
