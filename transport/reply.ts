/**
 * Replies as values, and the functions that write them to the response.
 *
 * Handlers return values, so they cannot write twice or after the client has disconnected. Header values are checked
 * when a reply is created, because the library would send a line break unchanged.
 */
import type { Refusal, RefusalKind, Result } from '../core/result.ts'
import type { AsciiText, ListenerResponse } from './listener-port.ts'
import { toBytes } from './to-bytes.ts'

export type Headers = readonly (readonly [name: string, value: string])[]

export interface Reply {
  readonly status: number
  readonly type: string
  readonly body: string | Uint8Array
  readonly headers?: Headers
  /** The body, where it need not be encoded. */
  readonly ascii?: AsciiText
}

/** A body that is sent in chunks and never held in memory as a whole. The status is always 200. */
export interface Download {
  readonly status: 200
  readonly type: string
  /** `undefined`: known only at the end. */
  readonly size: number | undefined
  readonly headers: Headers
  read(): AsyncIterable<Uint8Array>
}

const JSON_TYPE = 'application/json'
const UNSAFE_IN_HEADER = /[^\t\x20-\x7e]/

export function json(value: unknown, status = 200, headers?: Headers): Reply {
  return createReply(status, JSON_TYPE, JSON.stringify(value), headers)
}

/** For a body that is JSON text already. Encoding a short text costs a frequently polled route a tenth of its time. */
export function asciiJson(body: AsciiText): Reply {
  return { status: 200, type: JSON_TYPE, body, ascii: body }
}

/** A JSON array whose elements are JSON already. */
export function jsonArrayReply(elements: readonly string[], headers: Headers): Reply {
  return createReply(200, JSON_TYPE, `[${elements.join(',')}]`, headers)
}

export function text(body: string, type: string): Reply {
  return createReply(200, type, body)
}

/** A web page. */
export function htmlPage(status: number, html: string, headers: Headers): Reply {
  return createReply(status, 'text/html; charset=utf-8', html, headers)
}

/** A reply with the body `{error}`. */
export function refusal(status: number, message: string, headers?: Headers): Reply {
  return createReply(status, JSON_TYPE, JSON.stringify({ error: message }), headers)
}

export function refusalReply({ kind, message, confirm }: Refusal): Reply {
  if (confirm === undefined) return refusal(STATUS_OF[kind], message)
  return json({ error: message, confirm }, STATUS_OF[kind])
}

/** The result of a call of the host API as a reply. */
export function resultReply<T>(answer: Result<T>, status = 200): Reply {
  return answer.ok ? json(answer.value, status) : refusalReply(answer.refusal)
}

export function download(file: Omit<Download, 'status' | 'headers'>, headers: Headers): Download {
  return {
    status: 200,
    type: checkHeaderValue('content-type', file.type),
    size: file.size,
    headers: checkHeaders(headers),
    read: () => file.read(),
  }
}

/** A JSON array whose elements arrive in batches, as JSON. */
export function jsonArrayDownload(
  batches: AsyncIterable<readonly string[]>,
  headers: Headers = [],
): Download {
  return {
    status: 200,
    type: JSON_TYPE,
    size: undefined,
    headers: checkHeaders(headers),
    read: () => arrayChunks(batches),
  }
}

async function* arrayChunks(batches: AsyncIterable<readonly string[]>): AsyncGenerator<Uint8Array> {
  let separator = '['
  for await (const batch of batches) {
    if (batch.length === 0) continue
    yield Buffer.from(separator + batch.join(','))
    separator = ','
  }
  yield Buffer.from(separator === '[' ? '[]' : ']')
}

export const isDownload = (reply: Reply | Download): reply is Download => 'read' in reply

function createReply(status: number, type: string, body: string | Uint8Array, headers?: Headers): Reply {
  return headers === undefined
    ? { status, type, body }
    : { status, type, body, headers: checkHeaders(headers) }
}

export function checkHeaders(headers: Headers): Headers {
  for (const [name, value] of headers) checkHeaderValue(name, value)
  return headers
}

/** A value that could start another header line is a bug, so throw. */
function checkHeaderValue(name: string, value: string): string {
  if (UNSAFE_IN_HEADER.test(value)) throw new Error(`the value for the header ${name} is not printable ASCII`)
  return value
}

/** Caches the reply of the last value as long as the same object is passed. Values must not be changed in place. */
export function createCachedJson(): (value: object) => Reply {
  let last: object | undefined
  let reply: Reply | undefined
  return (value) => {
    if (reply === undefined || value !== last) {
      reply = createReply(200, JSON_TYPE, new TextEncoder().encode(JSON.stringify(value)))
      last = value
    }
    return reply
  }
}

/** Writes a whole reply. Call it once, inside `cork`. */
export function send(response: ListenerResponse, reply: Reply, extra?: Headers): void {
  writeHead(response, reply, extra)
  if (reply.status === 204) response.endWithoutBody()
  else response.end(reply.ascii ?? toBytes(reply.body))
}

/**
 * More than the library collects before it sends. A longer reply leaves at once, and then the connection closes before
 * the library reads on in the bytes that it has already received.
 */
const COLLECTED_BYTES_MAX = 16 * 1024
/** JSON may end with spaces. */
const SPACES = Buffer.alloc(COLLECTED_BYTES_MAX, ' ')

/** Answers a request whose end is unclear, and closes: bytes behind its head are never read as another request. */
export function sendAndClose(response: ListenerResponse, reply: Reply, extra?: Headers): void {
  writeHead(response, reply, extra)
  response.end(Buffer.concat([toBytes(reply.body), SPACES]), true)
}

/** The reply to HEAD: the length of the body without the body, which would corrupt the next reply. */
export function sendWithoutBody(response: ListenerResponse, reply: Reply, extra?: Headers): void {
  writeHead(response, reply, extra)
  // With the length as an argument the library would wait for that many bytes.
  response.writeHeader('content-length', String(Buffer.byteLength(reply.body)))
  response.endWithoutBody()
}

/**
 * The headers of every reply, appended to the value of one header: a call into the library costs more than all these
 * bytes, and most replies need no other header.
 */
const COMMON_HEADERS = 'no-store\r\nx-content-type-options: nosniff'
const headerLines = (type: string): string => `${type}\r\ncache-control: ${COMMON_HEADERS}`
const JSON_LINES = headerLines(JSON_TYPE)

/** Writes status and headers of a reply whose body follows in chunks. */
export function writeHead(
  response: ListenerResponse,
  reply: Pick<Reply, 'status' | 'type' | 'headers'>,
  extra: Headers | undefined,
): void {
  if (reply.status !== 200) response.writeStatus(statusLine(reply.status))
  if (reply.status === 204) response.writeHeader('cache-control', COMMON_HEADERS)
  else response.writeHeader('content-type', reply.type === JSON_TYPE ? JSON_LINES : headerLines(reply.type))
  if (reply.headers !== undefined) writeHeaders(response, reply.headers)
  if (extra !== undefined) writeHeaders(response, extra)
}

function writeHeaders(response: ListenerResponse, headers: Headers): void {
  for (const [name, value] of headers) response.writeHeader(name, value)
}

// ---- status codes --------------------------------------------------------------------------------------------------

/**
 * Maps refusals to HTTP status codes.
 *
 * The type makes the table complete: a new kind of refusal does not compile without a status. The remaining codes are
 * used only by the listeners themselves.
 */
const STATUS_OF: Readonly<Record<RefusalKind, number>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  unknown: 404,
  conflict: 409,
  gone: 410,
  failed: 500,
  unavailable: 503,
}

const REASON_PHRASES: Readonly<Record<number, string>> = {
  200: 'OK',
  204: 'No Content',
  302: 'Found',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Payload Too Large',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  505: 'HTTP Version Not Supported',
}

/** Code and reason phrase, such as `404 Not Found`. */
export function statusLine(status: number): string {
  return `${status} ${REASON_PHRASES[status] ?? 'Other'}`
}
