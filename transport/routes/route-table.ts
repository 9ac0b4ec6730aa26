/**
 * Combines the protocol's route table with checks and handlers.
 *
 * Handlers receive parameters, query and body with the types of the protocol's schemas, because everything is checked
 * before the call.
 */
import type { ActionSource } from '../../protocol/audit.ts'
import { type Checker, createChecker, type Parsed } from '../../protocol/parse.ts'
import { createQueryReader, readParams } from '../../protocol/query.ts'
import {
  type BodyOf,
  type HelperRouteName,
  type ListenerName,
  NoQuery,
  type ParamsOf,
  type QueryOf,
  type Route,
  type RouteAccess,
  type RouteName,
  routes,
} from '../../protocol/routes.ts'
import { type Download, type Reply, refusal } from '../reply.ts'
import type { Params } from '../router.ts'

export interface RouteRequest<N extends RouteName> {
  readonly params: ParamsOf<N>
  readonly query: QueryOf<N>
  readonly body: BodyOf<N>
  readonly asker: Asker | undefined
  readonly presence: Presence
}

/** Whether anybody still waits for the answer. */
export interface Presence {
  readonly hasGone: boolean
}

/** The caller: its source, and on routes for workers the authenticated worker, or the join key that was sent instead. */
export interface Asker {
  readonly source: ActionSource
  readonly workerId?: string
  readonly joinKeyId?: string
}

export type Handler<N extends RouteName> = (ask: RouteRequest<N>) => Reply | Promise<Reply | Download>

export type SocketName = {
  [N in RouteName]: (typeof routes)[N] extends { socket: true } ? N : never
}[RouteName]
/** A handler for each HTTP route. */
export type Handlers = { readonly [N in Exclude<RouteName, SocketName>]: Handler<N> }

/** Parameters and query of a request, checked against the route's schemas. */
export interface RouteParameters {
  readonly params: unknown
  readonly query: unknown
}

export interface ServedRoute {
  readonly name: RouteName | HelperRouteName
  readonly method: string
  readonly path: string
  readonly who: RouteAccess
  readonly listeners: readonly ListenerName[]
  readonly socket: boolean
  readonly takesBody: boolean
  readonly isBodyOptional: boolean
  readParameters(params: Params, query: string): Parsed<RouteParameters>
  /** Checks a body against the route's schema. */
  readBody(value: unknown): Parsed<unknown>
  /** Called with the values that `readParameters` and `readBody` returned. */
  run(
    placed: RouteParameters,
    body: unknown,
    asker: Asker | undefined,
    presence: Presence,
  ): Reply | Promise<Reply | Download>
}

const UPGRADE_REQUIRED = refusal(426, 'this path is a WebSocket: send an Upgrade request', [
  ['upgrade', 'websocket'],
])

export function createRoutes(handlers: Handlers): ServedRoute[] {
  const byName: { readonly [N in RouteName]?: Handler<N> } = handlers
  return routeNames().map((name) => createRoute(name, byName[name]))
}

function routeNames(): RouteName[] {
  // Object.keys returns string[] although the keys are known.
  return Object.keys(routes) as RouteName[]
}

function createRoute<N extends RouteName>(name: N, handler: Handler<N> | undefined): ServedRoute {
  return serveRoute(name, routes[name], handler === undefined ? () => UPGRADE_REQUIRED : runHandler(handler))
}

/** Creates a route of any of the protocol's tables; `run` receives only checked values. */
export function serveRoute(name: ServedRoute['name'], route: Route, run: ServedRoute['run']): ServedRoute {
  const readQuery = queryReaderOf(route)
  return {
    name,
    method: route.method,
    path: route.path,
    who: route.access,
    listeners: route.listeners,
    socket: route.socket === true,
    takesBody: route.body !== undefined,
    isBodyOptional: route.isBodyOptional === true,
    readParameters: (params, query) =>
      combine(route.params === undefined ? NO_VALUE : readParams(route.params, params), readQuery(query)),
    readBody: route.body === undefined ? noBody : createChecker(route.body),
    run,
  }
}

function runHandler<N extends RouteName>(handler: Handler<N>): ServedRoute['run'] {
  return ({ params, query }, body, asker, presence) => {
    // All values were checked with the schemas from which RouteRequest<N> is derived.
    const ask = { params, query, body, asker, presence } as RouteRequest<N>
    return handler(ask)
  }
}

function queryReaderOf(route: Route): (query: string) => Parsed<unknown> {
  if (route.query !== undefined) return createQueryReader(route.query)
  const readNone = createQueryReader(NoQuery)
  return (query) => {
    const read = query === '' ? NO_VALUE : readNone(query)
    return read.ok ? NO_VALUE : read
  }
}

function combine(params: Parsed<unknown>, query: Parsed<unknown>): Parsed<RouteParameters> {
  if (!params.ok) return params
  return query.ok ? { ok: true, value: { params: params.value, query: query.value } } : query
}

const NO_VALUE = { ok: true, value: undefined } as const
const noBody: Checker<undefined> = () => NO_VALUE
