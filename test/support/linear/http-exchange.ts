/** Reads requests and writes replies over HTTP, with their transport faults. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GraphFault, ReplyFault, TokenFault } from './faults.ts'
import type { OauthAnswer } from './oauth.ts'

export interface HttpExchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: string
  readonly url: URL
}

export type ReplyHeaders = Readonly<Record<string, string>>

/** Status of an outage in front of the service. */
export const OUTAGE_STATUS = 502
const BODY_BYTES_MAX = 1_000_000

/** Undefined when it is too long. The request is read to its end anyway, so that the reply arrives. */
export async function bodyOfRequest(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    bytes += chunk.length
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk)
  }
  return bytes > BODY_BYTES_MAX ? undefined : Buffer.concat(chunks).toString()
}

export function isJson({ headers }: IncomingMessage): boolean {
  return /^application\/json\b/i.test(headers['content-type'] ?? '')
}

/** Undefined when the body is not a form. */
export function formOf({ request, body }: HttpExchange): ReadonlyMap<string, string> | undefined {
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(request.headers['content-type'] ?? '')
  return isForm ? new Map(new URLSearchParams(body)) : undefined
}

export function html(status: number): OauthAnswer {
  const headers = { 'content-type': 'text/html; charset=utf-8' }
  return {
    status,
    headers,
    body: `<!doctype html><title>${status}</title><h1>Something is wrong: ${status}</h1>`,
  }
}

export function send(
  response: ServerResponse,
  { status, headers, body }: OauthAnswer,
  more: ReplyHeaders = {},
): void {
  response.writeHead(status, { ...headers, ...more, 'content-length': Buffer.byteLength(body) }).end(body)
}

/** Sends a reply, or applies the fault to it. */
export async function deliver(
  response: ServerResponse,
  answer: OauthAnswer,
  fault: GraphFault | TokenFault | undefined,
  more: ReplyHeaders = {},
): Promise<void> {
  const replyFault = fault && isReplyFault(fault) ? fault : undefined
  if (replyFault?.kind === 'reset') return void response.socket?.resetAndDestroy()
  if (replyFault?.kind === 'cut') return sendPartly(response, answer, more)
  if (replyFault?.kind === 'html') return send(response, html(replyFault.status ?? OUTAGE_STATUS), more)
  if (replyFault?.kind === 'slow') await pause(replyFault.ms)
  send(response, answer, { ...more, ...retryAfter(fault) })
}

export function isReplyFault(fault: GraphFault | TokenFault): fault is ReplyFault {
  return ['html', 'slow', 'reset', 'cut'].includes(fault.kind)
}

export async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms).unref())
}

function retryAfter(fault: GraphFault | TokenFault | undefined): ReplyHeaders {
  const seconds = fault && 'retryAfterSeconds' in fault ? fault.retryAfterSeconds : undefined
  return seconds === undefined ? {} : { 'retry-after': String(seconds) }
}

function sendPartly(
  response: ServerResponse,
  { status, headers, body }: OauthAnswer,
  more: ReplyHeaders,
): void {
  response.writeHead(status, { ...headers, ...more, 'content-length': Buffer.byteLength(body) })
  response.write(body.slice(0, body.length >> 1), () => response.destroy())
}
