/**
 * The typed client of a host: one function for each route, made from the table of routes by types alone.
 *
 * A function takes the route's parameters and query in one object, beside them `body`, and returns the answer. It
 * throws a `HostRefusal` when the host refuses, and a `HostUnreachable` when there is none. Answers are not checked
 * again: the host checks what it sends.
 */
import { HTTP_ANSWER_BYTES_MAX } from '../protocol/limits.ts'
import type { BodyOf, ParamsOf, QueryOf, ResponseOf, RouteName, Routes } from '../protocol/routes.ts'
import type { ClientConnection, ClientReply, HostAddress } from './connection.ts'
import { HostRefusal, HostUnreachable } from './errors.ts'
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

export interface CallOptions {
  /** The time limit of the whole request; of a download, until its first byte. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

type Call<N extends RequestName> =
  Record<never, never> extends RequestOf<N>
    ? (request?: RequestOf<N>, options?: CallOptions) => Promise<AnswerOf<N>>
    : (request: RequestOf<N>, options?: CallOptions) => Promise<AnswerOf<N>>

export type Client = { readonly [N in RequestName]: Call<N> }

/** Merging a pull request can wait for a code host that asks to be called again. */
const ANSWER_MS_MAX = 60_000
const DOWNLOADS: readonly RequestName[] = ['readArtifact']
const TEXTS: readonly RequestName[] = ['readMetrics', 'trackerCallback']
const SOCKETS: readonly RouteName[] = ['dashboardSocket', 'attachSocket', 'workerSocket']

export function createClient(connection: ClientConnection): Client {
  const names = Object.keys(REQUEST_LINES) as RouteName[]
  const calls = names
    .filter((name): name is RequestName => !SOCKETS.includes(name))
    .map((name) => [name, callOf(connection, name)])
  // The keys are all names of requests, and each function sends the request of its own key.
  return Object.fromEntries(calls) as Client
}

type AnyRequest = Readonly<Record<string, unknown>>

function callOf(connection: ClientConnection, name: RequestName) {
  const [method = '', path = ''] = REQUEST_LINES[name].split(' ')
  return async ({ body, ...named }: AnyRequest = {}, options: CallOptions = {}): Promise<unknown> => {
    const target = fillPath(path, named)
    if (DOWNLOADS.includes(name))
      return (await openReply(connection, { method, path: target, body }, options)).reply
    const text = await requestText(connection, { method, path: target, body }, options)
    return TEXTS.includes(name) ? text : JSON.parse(text)
  }
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

// ---- one request ---------------------------------------------------------------------------------------------------

export interface PlainRequest {
  readonly method: string
  /** With its query. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
}

/** Sends any request with the token, and returns the whole answer. */
export async function requestText(
  connection: ClientConnection,
  { method, path, body }: PlainRequest,
  options: CallOptions = {},
): Promise<string> {
  const { at, reply } = await openReply(connection, { method, path, body }, options)
  return await readLimited(at, reply, options)
}

/** The reply with its body unread; a refusal is read and thrown. */
export async function openReply(
  connection: ClientConnection,
  { method, path, body }: PlainRequest,
  options: CallOptions,
): Promise<{ readonly at: HostAddress; readonly reply: ClientReply }> {
  const at = await connection.address()
  const patience = new AbortController()
  const late = () => patience.abort(new Error('no answer in time'))
  const timer = setTimeout(late, options.timeoutMs ?? ANSWER_MS_MAX)
  try {
    const reply = await connection.send({
      method,
      url: `${at.url}${path}`,
      headers: headersOf(at, body),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal:
        options.signal === undefined ? patience.signal : AbortSignal.any([options.signal, patience.signal]),
    })
    if (reply.status >= 200 && reply.status < 300) return { at, reply }
    const challenge = reply.header('www-authenticate')
    const text = await readLimited(at, reply, options)
    const refusal = { status: reply.status, text, ...(challenge === undefined ? {} : { challenge }) }
    throw new HostRefusal(at, refusal, `${method} ${path}`)
  } catch (error) {
    throw failureOf(at, error, options)
  } finally {
    clearTimeout(timer)
  }
}

/** The error for the caller: its own abort and a refusal as they are, anything else as a host out of reach. */
function failureOf(at: HostAddress, error: unknown, { signal }: CallOptions): unknown {
  const isPlain = error instanceof HostRefusal || error instanceof HostUnreachable || signal?.aborted === true
  return isPlain ? error : new HostUnreachable(at, reasonOf(error))
}

const headersOf = ({ token }: HostAddress, body: unknown): Readonly<Record<string, string>> => ({
  ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  ...(body === undefined ? {} : { 'content-type': 'application/json' }),
})

async function readLimited(at: HostAddress, { body }: ClientReply, options: CallOptions): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  try {
    for await (const chunk of body) {
      bytes += chunk.byteLength
      if (bytes > HTTP_ANSWER_BYTES_MAX) throw new Error('the answer is too long')
      text += decoder.decode(chunk, { stream: true })
    }
  } catch (error) {
    throw failureOf(at, error, options)
  }
  return text + decoder.decode()
}

const REASON_CHARS_MAX = 300

/** The useful part of a failed request is its innermost cause, and of that its code. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code: unknown = Reflect.get(Object(cause), 'code')
  if (typeof code === 'string' && code !== '') return code
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, REASON_CHARS_MAX)
}
