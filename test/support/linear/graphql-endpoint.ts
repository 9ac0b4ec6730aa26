/** GraphQL endpoint of the fake Linear: identifies the caller, charges its bucket, applies faults and answers. */
import type { IncomingMessage } from 'node:http'
import type { GraphQLSchema } from 'graphql'
import type { Caller, LinearAccounts } from './accounts.ts'
import type { FaultQueue, GraphFault } from './faults.ts'
import { forcedAnswer, NO_REQUEST, UNAUTHENTICATED, withHole } from './forced.ts'
import {
  executeRequest,
  type GraphAnswer,
  type GraphRequest,
  type ParsedGraphRequest,
  parseRequest,
  requestOf,
} from './graph.ts'
import { isJson } from './http-exchange.ts'
import { linksOf, mutationRoot, queryRoot } from './operations.ts'
import { ANONYMOUS_LIMITS, type LinearLimits, Quota } from './quota.ts'
import { type Asker, linearSchema } from './schema.ts'
import type { LinearWorkspace } from './workspace.ts'

export interface GraphqlEndpointDependencies {
  readonly world: LinearWorkspace
  readonly accounts: LinearAccounts
  readonly faults: FaultQueue<GraphFault>
  readonly now: () => number
  readonly hasGitHub: () => boolean
  readonly keyLimits: LinearLimits
  readonly oauthLimits: LinearLimits
  readonly limitedStatus: number
}

/** A processed request with its reply. */
export interface AnsweredGraphRequest {
  readonly operation: string
  readonly variables: Readonly<Record<string, unknown>>
  readonly answer: GraphAnswer
  readonly bucket: string
  readonly quota: Quota
  readonly fault: GraphFault | undefined
}

interface PendingGraphRequest {
  readonly caller: Caller | undefined
  readonly quota: Quota
  readonly asked: GraphRequest | undefined
  readonly query: ParsedGraphRequest | GraphAnswer | undefined
  readonly fault: GraphFault | undefined
}

const ANONYMOUS = 'anonymous'

export class GraphqlEndpoint {
  readonly #parts: GraphqlEndpointDependencies
  readonly #schema: GraphQLSchema
  readonly #root: object
  readonly #links: Asker['links']
  readonly #quotas = new Map<string, Quota>()

  constructor(parts: GraphqlEndpointDependencies) {
    this.#parts = parts
    this.#schema = linearSchema(parts.now)
    this.#root = { ...queryRoot(parts), ...mutationRoot(parts) }
    this.#links = linksOf(parts.world)
  }

  async handle(request: IncomingMessage, body: string): Promise<AnsweredGraphRequest> {
    const caller = this.#parts.accounts.callerOf(request.headers.authorization ?? '')
    const quota = this.quotaOf(caller)
    const asked = isJson(request) ? requestOf(body) : undefined
    const query = asked && parseRequest(asked)
    const operation = query && 'name' in query ? query.name : 'unreadable'
    const fault = this.#parts.faults.next(operation)
    const answer = await this.#answer({ caller, quota, asked, query, fault })
    const bucket = caller?.bucket ?? ANONYMOUS
    return { operation, variables: asked?.variables ?? {}, answer, bucket, quota, fault }
  }

  quotaOf(caller: Caller | undefined): Quota {
    const bucket = caller?.bucket ?? ANONYMOUS
    const quota = this.#quotas.get(bucket) ?? new Quota(this.#limitsOf(caller), this.#parts.now)
    this.#quotas.set(bucket, quota)
    return quota
  }

  async #answer({ caller, quota, asked, query, fault }: PendingGraphRequest): Promise<GraphAnswer> {
    if (caller === undefined) return UNAUTHENTICATED
    if (asked === undefined || query === undefined) return NO_REQUEST
    const forced = fault && forcedAnswer(fault, quota)
    if (forced) return forced
    if (!('name' in query)) return query
    const answer = await executeRequest(query, asked, {
      schema: this.#schema,
      root: this.#root,
      asker: { viewer: caller.user, scopes: caller.scopes, links: this.#links, limits: () => quota.status },
      quota,
      limitedStatus: this.#parts.limitedStatus,
    })
    return fault?.kind === 'partial' ? withHole(answer, fault) : answer
  }

  #limitsOf(caller: Caller | undefined): LinearLimits {
    if (caller === undefined) return ANONYMOUS_LIMITS
    return caller.isOauth ? this.#parts.oauthLimits : this.#parts.keyLimits
  }
}
