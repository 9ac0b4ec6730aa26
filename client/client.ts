/**
 * The typed client of a host: one function for each route, made from the table of routes by types alone.
 *
 * A function takes the route's parameters and query in one object, beside them `body`, and returns the answer. It
 * throws a `HostRefusal` when the host refuses, or what answers is no host, and a `HostUnreachable` when there is none.
 * The host checks what it sends, so a client looks at one key of each answer at most.
 */
import type { BodyOf, ParamsOf, QueryOf, ResponseOf, RouteName, Routes } from '../protocol/routes.ts'
import type { ClientConnection, ClientReply, HostAddress } from './connection.ts'
import { HostRefusal } from './errors.ts'
import { type CallOptions, openReply, requestText } from './host-request.ts'
import { REQUEST_LINES } from './request-lines.ts'

/** Routes that are requests; the others are sockets. */
export type RequestName = {
  [N in RouteName]: Routes[N] extends { readonly socket: true } ? never : N
}[RouteName]

type OrNothing<T> = T extends undefined ? unknown : T
/** A query without parameters is an empty object type, which would accept anything. */
type Named<T> = keyof OrNothing<T> extends never ? unknown : OrNothing<T>

export type RequestOf<N extends RequestName> = Named<ParamsOf<N>> &
  Named<QueryOf<N>> &
  (BodyOf<N> extends undefined
    ? unknown
    : Routes[N] extends { readonly isBodyOptional: true }
      ? { readonly body?: BodyOf<N> }
      : { readonly body: BodyOf<N> })

/** Bytes and pages are read as they come; text is whole. */
export type AnswerOf<N extends RequestName> =
  ResponseOf<N> extends 'bytes' ? ClientReply : ResponseOf<N> extends 'text' | 'html' ? string : ResponseOf<N>

type Call<N extends RequestName> =
  Record<never, never> extends RequestOf<N>
    ? (request?: RequestOf<N>, options?: CallOptions) => Promise<AnswerOf<N>>
    : (request: RequestOf<N>, options?: CallOptions) => Promise<AnswerOf<N>>

export type { CallOptions }

export type Client = { readonly [N in RequestName]: Call<N> }

const DOWNLOADS: readonly RequestName[] = ['readArtifact']
const TEXTS: readonly RequestName[] = ['readMetrics', 'trackerCallback']
const SOCKETS: readonly RouteName[] = ['dashboardSocket', 'attachSocket', 'inspectSocket', 'workerSocket']

/** Called with each answer that is JSON. */
export type OnAnswer = (name: RequestName, answer: unknown) => void

export function createClient(connection: ClientConnection, onAnswer?: OnAnswer): Client {
  const names = Object.keys(REQUEST_LINES) as RouteName[]
  const calls = names
    .filter((name): name is RequestName => !SOCKETS.includes(name))
    .map((name) => [name, callOf(connection, name, onAnswer)])
  // The keys are all names of requests, and each function sends the request of its own key.
  return Object.fromEntries(calls) as Client
}

type AnyRequest = Readonly<Record<string, unknown>>

function callOf(connection: ClientConnection, name: RequestName, onAnswer: OnAnswer | undefined) {
  const [method = '', path = ''] = REQUEST_LINES[name].split(' ')
  return async ({ body, ...named }: AnyRequest = {}, options: CallOptions = {}): Promise<unknown> => {
    const target = fillPath(path, named)
    if (DOWNLOADS.includes(name))
      return (await openReply(connection, { method, path: target, body }, options)).reply
    const { at, text } = await requestText(connection, { method, path: target, body }, options)
    if (TEXTS.includes(name)) return text
    const isAnswer = (answer: unknown) => connection.isAnswer?.(name, answer) ?? true
    const answer = parseAnswer(at, text, `${method} ${target}`, isAnswer)
    onAnswer?.(name, answer)
    return answer
  }
}

/** Another server may use the port, or a proxy answers in the host's place. */
function parseAnswer(
  at: HostAddress,
  text: string,
  request: string,
  isAnswer: (answer: unknown) => boolean,
): unknown {
  const foreign = () => new HostRefusal(at, { status: 200, text }, request)
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    throw foreign()
  }
  if (isAnswer(answer)) return answer
  throw foreign()
}

/** Puts named values into the path, and all others into the query; a list stands there once for each item. */
export function fillPath(path: string, named: AnyRequest): string {
  const inPath = new Set<string>()
  const filled = path.replace(/:(\w+)/g, (_, key: string) => {
    inPath.add(key)
    return encodeURIComponent(String(named[key]))
  })
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(named))
    if (!inPath.has(key) && value !== undefined)
      for (const item of Array.isArray(value) ? value : [value]) query.append(key, String(item))
  const asked = query.toString()
  return asked === '' ? filled : `${filled}?${asked}`
}
