/**
 * Processes a GraphQL request: parse, validate, compute and charge its cost, execute.
 *
 * As with Linear, a request that was not executed has its own status; an executed one always has 200.
 */
import {
  type DocumentNode,
  execute,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  Kind,
  type OperationDefinitionNode,
  parse,
  validate,
} from 'graphql'
import { pointsOf, QUERY_POINTS_MAX } from './complexity.ts'
import type { Quota } from './quota.ts'
import { bodyOf, refused } from './refused.ts'
import { type Asker, resolveField } from './schema.ts'

export interface GraphRequest {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly operationName: string | undefined
}

export interface GraphAnswer {
  readonly status: number
  readonly body: { errors?: readonly object[]; data?: unknown }
  readonly points: number
}

export interface ParsedGraphRequest {
  readonly document: DocumentNode
  readonly operation: OperationDefinitionNode
  /** Name of the operation, or of its first field. */
  readonly name: string
}

export interface GraphExecutionContext {
  readonly schema: GraphQLSchema
  readonly root: object
  readonly asker: Asker
  readonly quota: Quota
  /** Status of a rate limit refusal. */
  readonly limitedStatus: number
}

const GRAPHQL_ERROR = { code: 'GRAPHQL_VALIDATION_FAILED', type: 'graphql error', http: { status: 400 } }

/** Parses the request body; undefined when it is invalid. */
export function requestOf(body: string): GraphRequest | undefined {
  const { query, variables, operationName } = recordOf(body)
  if (typeof query !== 'string') return undefined
  return {
    query,
    variables: typeof variables === 'object' && variables !== null ? { ...variables } : {},
    operationName: typeof operationName === 'string' ? operationName : undefined,
  }
}

export function parseRequest({ query, operationName }: GraphRequest): ParsedGraphRequest | GraphAnswer {
  try {
    const document = parse(query)
    const operation = getOperationAST(document, operationName)
    if (!operation) return unreadable(new GraphQLError('Unknown or ambiguous operation.'))
    return { document, operation, name: nameOf(operation) }
  } catch (thrown) {
    return unreadable(thrown instanceof GraphQLError ? thrown : new GraphQLError(String(thrown)))
  }
}

export async function executeRequest(
  { document, operation }: ParsedGraphRequest,
  { variables, operationName }: GraphRequest,
  { schema, root, asker, quota, limitedStatus }: GraphExecutionContext,
): Promise<GraphAnswer> {
  if (!quota.takeRequest()) return limited(`${quota.limits.requests} requests are`, limitedStatus)
  const faults = validate(schema, document)
  if (faults.length > 0) return unreadable(...faults)
  const { coerced, errors: wrong } = getVariableValues(schema, operation.variableDefinitions ?? [], variables)
  if (coerced === undefined) return invalidVariables(wrong)
  const points = pointsOf({ schema, fragments: fragmentsOf(document), variables: coerced }, operation)
  if (points > QUERY_POINTS_MAX) return tooComplex(points)
  if (!quota.takePoints(points))
    return limited(`complexity of ${quota.limits.points} points is`, limitedStatus)
  const result = await execute({
    schema,
    document,
    rootValue: root,
    contextValue: asker,
    variableValues: variables,
    operationName: operationName ?? null,
    fieldResolver: resolveField,
  })
  const errors = result.errors?.map((error) => describeError(error))
  return { status: 200, body: errors ? { errors, data: result.data } : { data: result.data }, points }
}

export function limited(what: string, status: number): GraphAnswer {
  const error = refused('ratelimited', `Rate limit exceeded. Only ${what} allowed per 1 hour.`)
  return { status, body: bodyOf(error), points: 0 }
}

function tooComplex(points: number): GraphAnswer {
  const hint = `The query is too complex. Complexity: ${points}. Maximum allowed complexity: ${QUERY_POINTS_MAX}.`
  const error = refused('input', 'Query too complex', hint, { http: { status: 400 } })
  return { status: 400, body: bodyOf(error), points }
}

function unreadable(...errors: readonly GraphQLError[]): GraphAnswer {
  const body = { errors: errors.map((error) => ({ ...error.toJSON(), extensions: GRAPHQL_ERROR })) }
  return { status: 400, body, points: 0 }
}

/** Not executed. Errors of our scalars come first. */
function invalidVariables(errors: readonly GraphQLError[]): GraphAnswer {
  const bodies = errors.map((error) => ({
    ...error.toJSON(),
    extensions: { ...GRAPHQL_ERROR, code: 'BAD_USER_INPUT', ...error.extensions },
  }))
  return { status: 400, body: { errors: bodies }, points: 0 }
}

/** Any other thrown error is a bug of the fake, reported as an internal error. */
function describeError(error: GraphQLError): object {
  if (Object.keys(error.extensions).length > 0) return error.toJSON()
  return { ...error.toJSON(), extensions: refused('internal', error.message).extensions }
}

function nameOf(operation: OperationDefinitionNode): string {
  const first = operation.selectionSet.selections[0]
  return operation.name?.value ?? (first?.kind === Kind.FIELD ? first.name.value : 'anonymous')
}

function fragmentsOf(document: DocumentNode): Map<string, FragmentDefinitionNode> {
  const fragments = document.definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION)
  return new Map(fragments.map((fragment) => [fragment.name.value, fragment]))
}

function recordOf(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
