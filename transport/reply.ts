/**
 * Replies as values, and the one place where they become bytes.
 *
 * A handler answers with a value; it cannot write twice, or after the client has gone. Header values are
 * checked as a reply is made, because the listener would pass a line break in one straight through to the wire.
 */
import type { HttpResponse } from 'uWebSockets.js'
import type { Refusal } from '../core/refusal.ts'
import { STATUS_OF, statusLine } from './status.ts'

export type Headers = readonly (readonly [name: string, value: string])[]

export interface Reply {
  readonly status: number
  readonly type: string
  readonly body: string | Uint8Array
  readonly headers?: Headers
}

const JSON_TYPE = 'application/json'
const UNSAFE_IN_HEADER = /[^\t\x20-\x7e]/

export function json(value: unknown, status = 200, headers?: Headers): Reply {
  return made(status, JSON_TYPE, JSON.stringify(value), headers)
}

export function text(body: string, type: string): Reply {
  return made(200, type, body)
}

/** `{error}` and nothing else. */
export function refusal(status: number, message: string, headers?: Headers): Reply {
  return made(status, JSON_TYPE, JSON.stringify({ error: message }), headers)
}

export function refused({ kind, message }: Refusal): Reply {
  return refusal(STATUS_OF[kind], message)
}

function made(status: number, type: string, body: string | Uint8Array, headers?: Headers): Reply {
  return headers === undefined ? { status, type, body } : { status, type, body, headers: safe(headers) }
}

/** A value that could start a line of its own is a bug of ours; the request ends as one. */
export function safe(headers: Headers): Headers {
  const bad = headers.find(([, value]) => UNSAFE_IN_HEADER.test(value))
  if (bad !== undefined) throw new Error(`the value for the header ${bad[0]} is not printable ASCII`)
  return headers
}

/**
 * Keeps the reply made from the last value, for as long as the same object comes back. Values given to it must not
 * change in place.
 */
export function keptJson(): (value: object) => Reply {
  let last: object | undefined
  let reply: Reply | undefined
  return (value) => {
    if (reply === undefined || value !== last) {
      reply = made(200, JSON_TYPE, new TextEncoder().encode(JSON.stringify(value)))
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

/** Status and headers only, for a reply whose body follows in pieces. */
export function writeHead(response: HttpResponse, reply: Reply, extra: Headers | undefined): void {
  if (reply.status !== 200) response.writeStatus(statusLine(reply.status))
  if (reply.status !== 204) response.writeHeader('content-type', reply.type)
  response.writeHeader('cache-control', 'no-store').writeHeader('x-content-type-options', 'nosniff')
  if (reply.headers !== undefined) writeHeaders(response, reply.headers)
  if (extra !== undefined) writeHeaders(response, extra)
}

function writeHeaders(response: HttpResponse, headers: Headers): void {
  for (const [name, value] of headers) response.writeHeader(name, value)
}
