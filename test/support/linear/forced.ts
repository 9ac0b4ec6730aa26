/** Applies faults to GraphQL replies. */
import type { GraphFault } from './faults.ts'
import { type GraphAnswer, limited } from './graph.ts'
import { OUTAGE_STATUS } from './http-exchange.ts'
import type { Quota } from './quota.ts'
import { bodyOf, refused } from './refused.ts'

export const UNAUTHENTICATED = unauthenticated(401)

/** Reply to a body that is not a GraphQL request. */
export const NO_REQUEST: GraphAnswer = {
  status: 400,
  body: bodyOf(refused('input', 'GraphQL operations must be sent as JSON with a non-empty `query`.')),
  points: 0,
}

/**
 * Reply that replaces the execution. Undefined for faults that need it: a slow, cut or reset reply has taken effect,
 * which the caller cannot know.
 */
export function forcedAnswer(fault: GraphFault, { limits }: Quota): GraphAnswer | undefined {
  if (fault.kind === 'ratelimited') return limited(`${limits.requests} requests are`, fault.status ?? 400)
  if (fault.kind === 'authentication') return unauthenticated(fault.status ?? 401)
  if (fault.kind === 'forbidden')
    return { status: 403, body: bodyOf(refused('forbidden', 'Forbidden')), points: 0 }
  if (fault.kind === 'html') return { status: fault.status ?? OUTAGE_STATUS, body: {}, points: 0 }
  if (fault.kind === 'internal')
    return { status: 500, body: bodyOf(refused('internal', 'Internal server error')), points: 0 }
  return undefined
}

/** Sets the value at the path to null and adds an error. For a path without a value only the error is added. */
export function withHole(
  answer: GraphAnswer,
  { path, message = 'Internal server error' }: Extract<GraphFault, { kind: 'partial' }>,
): GraphAnswer {
  const data = structuredClone(answer.body.data)
  const holder = path.slice(0, -1).reduce<unknown>((inner, step) => Object(inner)[step], data)
  const last = path.at(-1)
  if (typeof holder === 'object' && holder !== null && last !== undefined)
    Object.assign(holder, { [last]: null })
  const error = { ...refused('internal', message).toJSON(), path }
  return { ...answer, body: { errors: [...(answer.body.errors ?? []), error], data } }
}

function unauthenticated(status: number): GraphAnswer {
  const hint = 'You need to authenticate to access this operation.'
  return {
    status,
    body: bodyOf(refused('authentication', 'Authentication required, not authenticated', hint)),
    points: 0,
  }
}
