/** Errors of Linear's GraphQL: a message, and extensions that tell the kind. */
import { GraphQLError, type GraphQLErrorExtensions } from 'graphql'

interface LinearErrorKind {
  readonly type: string
  readonly code: string
  readonly statusCode: number
}

const KINDS = {
  authentication: { type: 'authentication error', code: 'AUTHENTICATION_ERROR', statusCode: 401 },
  input: { type: 'invalid input', code: 'INPUT_ERROR', statusCode: 400 },
  forbidden: { type: 'forbidden', code: 'FORBIDDEN', statusCode: 403 },
  ratelimited: { type: 'ratelimited', code: 'RATELIMITED', statusCode: 429 },
  internal: { type: 'internal error', code: 'INTERNAL_SERVER_ERROR', statusCode: 500 },
} as const satisfies Record<string, LinearErrorKind>

export function refused(
  kind: keyof typeof KINDS,
  message: string,
  hint: string = message,
  more: GraphQLErrorExtensions = {},
): GraphQLError {
  const extensions = { ...KINDS[kind], userError: kind !== 'internal', userPresentableMessage: hint, ...more }
  return new GraphQLError(message, { extensions })
}

export function notFound(type: string): GraphQLError {
  return refused('input', `Entity not found: ${type}`, `Could not find referenced ${type}.`)
}

/** An argument has an invalid form, independent of the data. */
export function badArgument(what: string): GraphQLError {
  return refused('input', 'Argument Validation Error', what)
}

/** Reply body when nothing was executed. */
export function bodyOf(...errors: readonly GraphQLError[]): { errors: object[] } {
  return { errors: errors.map((error) => error.toJSON()) }
}
