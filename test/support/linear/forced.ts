/** What a switched-on fault makes of a GraphQL answer. */
import type { GraphFault } from './faults.ts'
import { type GraphAnswer, limited } from './graph.ts'
import type { Quota } from './quota.ts'
import { bodyOf, refused } from './refused.ts'
import { OUTAGE_STATUS } from './wire.ts'

export const UNAUTHENTICATED = unauthenticated(401)

/** What is asked in a body that is no GraphQL request. */
export const NO_REQUEST: GraphAnswer = {
  status: 400,
  body: bodyOf(refused('input', 'GraphQL operations must be sent as JSON with a non-empty `query`.')),
  points: 0,
}

/**
 * The answer instead of an executed one. Undefined for a fault that needs the executed one: what is slow, cut or reset
 * was done all the same, which a caller cannot know.
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

/** Null at the path, and an error that says so. A path that leads nowhere stays a mere error. */
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
