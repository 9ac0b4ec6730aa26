/**
 * Replies as values, and the one place where they become bytes.
 *
 * A handler answers with a value; it cannot write twice, or after the client has gone. Header values are
 * checked as a reply is made, because the listener would pass a line break in one straight through to the wire.
 */
import type { HttpResponse } from 'uWebSockets.js'
import type { Refusal, Result } from '../core/result.ts'
import { STATUS_OF, statusLine } from './status.ts'

export type Headers = readonly (readonly [name: string, value: string])[]

export interface Reply {
  readonly status: number
  readonly type: string
  readonly body: string | Uint8Array
  readonly headers?: Headers
}

/** A body of known size that comes in pieces, and is never held whole. Always 200: what was not found has no pieces. */
export interface Download {
  readonly status: 200
  readonly type: string
  readonly size: number
  readonly headers: Headers
  read(): AsyncIterable<Uint8Array>
}

const JSON_TYPE = 'application/json'
const UNSAFE_IN_HEADER = /[^\t\x20-\x7e]/

export function json(value: unknown, status = 200, headers?: Headers): Reply {
  return createReply(status, JSON_TYPE, JSON.stringify(value), headers)
}

/** For what is JSON text already. */
export function jsonText(body: string): Reply {
  return createReply(200, JSON_TYPE, body)
}

export function text(body: string, type: string): Reply {
  return createReply(200, type, body)
}

/** For a person's browser. */
export function htmlPage(status: number, html: string, headers: Headers): Reply {
  return createReply(status, 'text/html; charset=utf-8', html, headers)
}

/** `{error}` and nothing else. */
export function refusal(status: number, message: string, headers?: Headers): Reply {
  return createReply(status, JSON_TYPE, JSON.stringify({ error: message }), headers)
}

export function refusalReply({ kind, message }: Refusal): Reply {
  return refusal(STATUS_OF[kind], message)
}

/** What the desk answered, as it is. */
export function resultReply<T>(answer: Result<T>): Reply {
  return answer.ok ? json(answer.value) : refusalReply(answer.refusal)
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

/** A value that could start a line of its own is a bug of ours; the request ends as one. */
function checkHeaderValue(name: string, value: string): string {
  if (UNSAFE_IN_HEADER.test(value)) throw new Error(`the value for the header ${name} is not printable ASCII`)
  return value
}

/**
 * Keeps the reply made from the last value, for as long as the same object comes back. Values given to it must not
 * change in place.
 */
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

/** Writes one whole reply. Call it corked, once. */
export function send(response: HttpResponse, reply: Reply, extra?: Headers): void {
  writeHead(response, reply, extra)
  if (reply.status === 204) response.endWithoutBody()
  else response.end(reply.body)
}

/** To HEAD: how long the body would have been, and no body, or the connection's next reply begins in its midst. */
export function sendWithoutBody(response: HttpResponse, reply: Reply, extra?: Headers): void {
  writeHead(response, reply, extra)
  // Told the length as an argument, the listener would go on waiting for that many bytes.
  response.writeHeader('content-length', String(Buffer.byteLength(reply.body))).endWithoutBody()
}

/**
 * What every reply says besides, as the listener writes it behind the value of one header: a call into the listener
 * costs more than all the bytes of these lines, and most replies need no other.
 */
const COMMON_HEADERS = 'no-store\r\nx-content-type-options: nosniff'
const headerLines = (type: string): string => `${type}\r\ncache-control: ${COMMON_HEADERS}`
const JSON_LINES = headerLines(JSON_TYPE)

/** Status and headers only, for a reply whose body follows in pieces. */
export function writeHead(
  response: HttpResponse,
  reply: Pick<Reply, 'status' | 'type' | 'headers'>,
  extra: Headers | undefined,
): void {
  if (reply.status !== 200) response.writeStatus(statusLine(reply.status))
  if (reply.status === 204) response.writeHeader('cache-control', COMMON_HEADERS)
  else response.writeHeader('content-type', reply.type === JSON_TYPE ? JSON_LINES : headerLines(reply.type))
  if (reply.headers !== undefined) writeHeaders(response, reply.headers)
  if (extra !== undefined) writeHeaders(response, extra)
}

function writeHeaders(response: HttpResponse, headers: Headers): void {
  for (const [name, value] of headers) response.writeHeader(name, value)
}
