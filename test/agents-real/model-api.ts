/**
 * A fake model API: an HTTPS server on the loopback that answers the questions of one test with prepared replies.
 *
 * The server records each request with its credential. Unknown requests get 404 and are recorded, too. The replies of
 * the two APIs are in `fake-anthropic.ts` and `fake-openai.ts`; both stream server-sent events.
 */
import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Certificate } from './certificate.ts'

export interface Asked {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Empty if the body was compressed. */
  readonly body: Readonly<Record<string, unknown>>
}

export type Reply = (response: ServerResponse, asked: Asked) => void

export interface ModelApi {
  readonly port: number
  /** The questions, in order. */
  readonly asked: readonly Asked[]
  /** Requests for anything else, as `METHOD PATH`. */
  readonly strays: readonly string[]
  /** Resolves when this many questions have arrived. */
  questions(count: number): Promise<void>
  /** The number of endless replies whose connection the client has closed. */
  abandoned(): number
  close(): Promise<void>
}

export interface ModelApiOrder {
  readonly certificate: Certificate
  /** Whether a request is a question to the model. */
  readonly path: string
  /** A reply per question; the last one answers all further questions. */
  readonly replies: readonly Reply[]
}

const QUESTION_BYTES_MAX = 16 * 1024 * 1024

export async function openModelApi({ certificate, path, replies }: ModelApiOrder): Promise<ModelApi> {
  const asked: Asked[] = []
  const strays: string[] = []
  const waiting = new Set<() => void>()
  const sockets = new Set<Socket>()
  let abandoned = 0
  const server = createServer(certificate, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'https://here')
    const body = await bodyOf(request)
    if (request.method !== 'POST' || pathname !== path) {
      strays.push(`${request.method} ${pathname}`)
      return void response.writeHead(404, { 'content-type': 'application/json' }).end('{}')
    }
    response.on('close', () => {
      if (!response.writableEnded) abandoned += 1
    })
    const question = { path: request.url ?? '/', headers: request.headers, body }
    asked.push(question)
    for (const check of waiting) check()
    replies[Math.min(asked.length, replies.length) - 1]?.(response, question)
  }

  // Some clients first ask for a WebSocket; only this status makes them not ask again.
  server.on('upgrade', (_request, socket: Socket) => {
    strays.push('upgrade')
    socket.end('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', ({ message }) => strays.push(`TLS: ${message}`))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    port: (server.address() as AddressInfo).port,
    asked,
    strays,
    questions: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (asked.length < count) return
          waiting.delete(check)
          resolve()
        }
        waiting.add(check)
        check()
      }),
    abandoned: () => abandoned,
    close: async () => {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request) {
    bytes += piece.length
    if (bytes > QUESTION_BYTES_MAX) throw new Error('a question that long is no question')
    pieces.push(piece)
  }
  // Some bodies use a compression that this Node cannot decode; the credential is still recorded.
  if (bytes === 0 || request.headers['content-encoding'] !== undefined) return {}
  return JSON.parse(Buffer.concat(pieces).toString())
}

// ---- replies of both APIs ----------------------------------------------------------------------------------------

/** Server-sent events, each named by its type, as both APIs send them. */
export function stream(response: ServerResponse, events: readonly { readonly type: string }[]): void {
  begin(response)
  for (const event of events) send(response, event)
  response.end()
}

export function begin(response: ServerResponse, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'request-id': 'req_fake', ...headers })
}

export function send(response: ServerResponse, event: { readonly type: string }): void {
  response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
}

export function refuse(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
