/**
 * `openModelApi` serves a vendor's model API on a socket of one run and adds the run's credential outside the sandbox.
 *
 * Requests and answers stream through; nothing is stored or logged but counts. Only model requests pass, always to the
 * vendor's one origin, and redirects are not followed. An answer never holds the credential. The meter may end an
 * answer, and refuses every request after that.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../../core/ports.ts'
import {
  MODEL_API_BODY_BYTES_MAX,
  MODEL_API_CLIENTS_MAX,
  MODEL_API_HEADER_BYTES_MAX,
  MODEL_API_REQUEST_MS_MAX,
  MODEL_API_REQUESTS_MAX,
} from '../../protocol/limits.ts'
import { type ConnectionLog, makeConnectionLog } from '../sandbox/egress/connection-log.ts'
import { listenWith, type SocketOwner } from '../sandbox/egress/listen.ts'
import { BODY_TOO_LARGE, BodyTooLargeError, limitRequestBody } from './limited-body.ts'
import { type ModelMeter, type RequestMeter, UNMETERED } from './meter.ts'
import type { ModelAccess } from './model-access.ts'
import { type ModelErrorKind, modelError } from './model-errors.ts'
import { checkModelRequest, type ModelRequest } from './model-request.ts'
import { explainBrokenAnswer, findAnswerProblem, headersToPass } from './model-response.ts'
import type { ModelUpstream, UpstreamResponse } from './model-upstream.ts'
import { createMaskStream, SecretMask } from './secret-mask.ts'

export interface ModelApiOptions {
  readonly access: ModelAccess
  /** The run's folder on the host; the socket is created there. */
  readonly folder: string
  /** The sandbox's user when it is not the worker's own; only this user may connect. */
  readonly owner?: SocketOwner
  readonly upstream: ModelUpstream
  readonly meter?: ModelMeter
  readonly log: (line: string) => void
  readonly clock: Clock
}

export interface ModelApi {
  /** Host path of the socket; mount it at MODEL_SOCKET. */
  readonly socketPath: string
  /** Ends every request and removes the socket. */
  close(): Promise<void>
}

/** Rejects when the socket cannot be created. */
export async function openModelApi(options: ModelApiOptions): Promise<ModelApi> {
  const socketPath = join(options.folder, 'model-api.sock')
  const proxy = new ModelProxy(options)
  const stopListening = await listenWith(proxy.server, socketPath, options.owner)
  let closing: Promise<void> | undefined
  return {
    socketPath,
    close: () => {
      closing ??= stopListening(() => proxy.endAll())
      return closing
    },
  }
}

class ModelProxy {
  readonly server: Server
  readonly #options: ModelApiOptions
  readonly #meter: ModelMeter
  readonly #mask: readonly string[]
  readonly #log: ConnectionLog
  readonly #running = new Map<AbortController, Promise<void>>()
  readonly #totals = { answered: 0, refused: 0, failed: 0 }

  constructor(options: ModelApiOptions) {
    this.#options = options
    this.#meter = options.meter ?? UNMETERED
    this.#mask = options.access.secrets
    this.#log = makeConnectionLog(options.log, options.clock, 'model api')
    this.server = createServer(
      {
        maxHeaderSize: MODEL_API_HEADER_BYTES_MAX,
        requestTimeout: MODEL_API_REQUEST_MS_MAX,
        insecureHTTPParser: false,
        noDelay: true,
      },
      (request, response) => this.#accept(request, response),
    )
    this.server.maxConnections = MODEL_API_CLIENTS_MAX
    this.server.on('upgrade', refuseSocket('426 Upgrade Required'))
    this.server.on('connect', refuseSocket('405 Method Not Allowed'))
    this.server.on('clientError', (_error, socket) => endSocket(socket, '400 Bad Request'))
  }

  async endAll(): Promise<void> {
    for (const abort of this.#running.keys()) abort.abort()
    this.server.closeAllConnections()
    await Promise.all(this.#running.values())
    this.#log.reportOmitted()
    const { answered, refused, failed } = this.#totals
    if (answered + refused + failed > 0)
      this.#options.log(
        `model api: closed after ${answered} answered requests; ${refused} refused, ${failed} failed`,
      )
  }

  // ---- one request -----------------------------------------------------------------------------------------------

  #accept(request: IncomingMessage, response: ServerResponse): void {
    // An unhandled error event would end the worker; `close` follows every error.
    request.on('error', () => {})
    response.on('error', () => {})
    const checked = checkModelRequest(request, this.#options.access)
    const spent = this.#meter.spent()
    const bytes = Number(request.headers['content-length'] ?? 0)
    if (!checked.ok) this.#refuse(request, response, 'request', checked.refusal.message)
    else if (spent !== undefined) this.#refuse(request, response, 'budget', spent)
    else if (bytes > MODEL_API_BODY_BYTES_MAX) this.#refuse(request, response, 'size', BODY_TOO_LARGE)
    else if (this.#running.size >= MODEL_API_REQUESTS_MAX) this.#refuse(request, response, 'busy', TOO_MANY)
    else this.#start(request, response, checked.value)
  }

  #start(request: IncomingMessage, response: ServerResponse, checked: ModelRequest): void {
    const abort = new AbortController()
    response.once('close', () => abort.abort())
    const counted = this.#meter.onRequest({ method: checked.method, path: checked.path })
    const done = this.#exchange(request, response, { checked, counted, abort })
      .catch((error: unknown) => this.#fail(request, response, error))
      .finally(() => {
        this.#running.delete(abort)
        counted.onEnd()
        abort.abort()
      })
    this.#running.set(abort, done)
  }

  async #exchange(
    request: IncomingMessage,
    response: ServerResponse,
    { checked, counted, abort }: ModelExchange,
  ): Promise<void> {
    const { access, upstream } = this.#options
    const { method, path, headers } = checked
    const length = request.headers['content-length']
    const answer = await upstream.send({
      origin: access.origin,
      method,
      path,
      headers: {
        ...headers,
        ...access.credentialHeaders(headers),
        // The meter and the mask read the answer.
        'accept-encoding': 'identity',
        ...(method === 'POST' && length !== undefined ? { 'content-length': length } : {}),
      },
      ...(method === 'POST' ? { body: limitRequestBody(request, counted) } : {}),
      signal: abort.signal,
    })
    const problem = findAnswerProblem(answer)
    if (problem !== undefined) {
      answer.body.on('error', () => {}).destroy()
      this.#refuseAnswer(request, response, problem)
      return
    }
    await this.#passOn(answer, response, counted)
    this.#totals.answered += 1
  }

  async #passOn(answer: UpstreamResponse, response: ServerResponse, counted: RequestMeter): Promise<void> {
    const mask = new SecretMask(this.#mask)
    const headers = headersToPass(answer.headers, (text) => mask.maskText(text))
    counted.onResponseHead(answer.status, headers)
    response.writeHead(answer.status, headers)
    response.flushHeaders()
    const count = (bytes: Buffer) => {
      counted.onChunk(bytes)
      const spent = this.#meter.spent()
      return spent === undefined ? undefined : new BudgetSpent(spent)
    }
    await pipeline(answer.body, createMaskStream(mask, count), response)
  }

  // ---- refusals --------------------------------------------------------------------------------------------------

  #fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (error instanceof BodyTooLargeError) this.#refuse(request, response, 'size', error.message)
    else if (error instanceof BudgetSpent) this.#refuse(request, response, 'budget', error.message)
    // Otherwise the agent or the whole run has ended the request.
    else if (!response.destroyed || response.headersSent)
      this.#refuseAnswer(request, response, explainBrokenAnswer(error))
  }

  #refuseAnswer(request: IncomingMessage, response: ServerResponse, why: string): void {
    this.#refuse(request, response, 'upstream', `the model’s API gave no usable answer: ${why}`)
  }

  /** An answer that has begun can only be broken off. */
  #refuse(request: IncomingMessage, response: ServerResponse, kind: ModelErrorKind, why: string): void {
    this.#totals[kind === 'upstream' ? 'failed' : 'refused'] += 1
    const [path = ''] = (request.url ?? '').split('?', 1)
    this.#log.record(path, `${kind === 'upstream' ? 'failed' : 'refused'}: ${why}`)
    if (response.headersSent || response.destroyed) return void response.destroy()
    const { status, headers, body } = modelError(this.#options.access.errorStyle, kind, why)
    response.writeHead(status, headers).end(body)
    // Discard the rest of the request, so that the agent reads the answer before the connection ends.
    request.resume()
  }
}

interface ModelExchange {
  readonly checked: ModelRequest
  readonly counted: RequestMeter
  readonly abort: AbortController
}

const TOO_MANY = `${MODEL_API_REQUESTS_MAX} requests of this run are under way already`

class BudgetSpent extends Error {}

const refuseSocket = (status: string) => (_request: IncomingMessage, socket: Duplex) =>
  endSocket(socket, status)

function endSocket(socket: Duplex, status: string): void {
  socket.on('error', () => {})
  if (!socket.writable) return void socket.destroy()
  const head = [`HTTP/1.1 ${status}`, 'content-length: 0', 'connection: close']
  socket.end(`${head.join('\r\n')}\r\n\r\n`, () => socket.destroy())
}
