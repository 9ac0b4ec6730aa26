/**
 * `openModelApi` serves a vendor's model API on a socket of one run and adds the run's credential outside the sandbox.
 *
 * Requests are read whole and answers stream through; nothing is stored or logged but counts. Only model requests pass,
 * always to the vendor's one origin, and redirects are not followed. An answer never holds the credential. The meter
 * says when a request may go. One that went is seen to its end, whether or not the agent waits for it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type Duplex, Readable } from 'node:stream'
import type { Clock } from '../../core/ports/clock.ts'
import { MODEL_API_BODY_BYTES_MAX, MODEL_API_HEADER_BYTES_MAX } from '../../protocol/limits.ts'
import { type ConnectionLog, makeConnectionLog } from '../sandbox/egress/connection-log.ts'
import { listenWith, type SocketOwner } from '../sandbox/egress/listen.ts'
import type { ModelUpstream, UpstreamResponse } from './dialed-upstream.ts'
import { type ModelMeter, type RequestEnd, type RequestMeter, UNMETERED } from './meter.ts'
import type { ModelAccess } from './model-access.ts'
import { createModelGate, type ModelGate, type ModelRules } from './model-gate.ts'
import {
  checkModelRequest,
  explainBrokenAnswer,
  findAnswerProblem,
  headersToPass,
  type ModelRequest,
} from './passing-headers.ts'
import {
  BODY_TOO_LARGE,
  BodyReader,
  type ModelErrorKind,
  ModelRefusal,
  modelError,
  type WrittenBody,
} from './request-body.ts'
import { SecretMask } from './secret-mask.ts'

/** Requests of one run to its model's API that are under way at once; subagents ask concurrently. */
export const MODEL_API_REQUESTS_MAX = 32
/** Connections from one sandbox. */
const MODEL_API_CLIENTS_MAX = 64
/** How long the end of a run waits for answers that are still under way, to know what they cost. */
const MODEL_API_SETTLE_MS_MAX = 5_000
/** How long a sandbox may take to send a request. */
const MODEL_API_REQUEST_MS_MAX = 120_000

export interface ModelApiOptions {
  readonly access: ModelAccess
  /** The run's folder on the host; the socket is created there. */
  readonly folder: string
  /** The sandbox's user when it is not the worker's own; only this user may connect. */
  readonly owner?: SocketOwner
  readonly upstream: ModelUpstream
  readonly meter?: ModelMeter
  readonly rules: ModelRules
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
  readonly #gate: ModelGate
  readonly #bodies = new BodyReader()
  readonly #log: ConnectionLog
  /** Each controller ends its request, whatever that costs. */
  readonly #running = new Map<AbortController, Promise<void>>()
  readonly #loggedRefusals = new Set<string>()
  #isClosing = false
  readonly #totals = { answered: 0, refused: 0, failed: 0 }

  constructor(options: ModelApiOptions) {
    this.#options = options
    this.#meter = options.meter ?? UNMETERED
    this.#gate = createModelGate(options.rules, options.log)
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

  /** Answers that nobody hears any more are read on for a moment, because their end says what they cost. */
  async endAll(): Promise<void> {
    this.#isClosing = true
    this.server.closeAllConnections()
    const stopAll = () => {
      for (const stop of this.#running.keys()) stop.abort()
    }
    const cancel = this.#options.clock.after(MODEL_API_SETTLE_MS_MAX, stopAll)
    await Promise.all(this.#running.values())
    cancel()
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
    const bytes = Number(request.headers['content-length'] ?? 0)
    if (this.#isClosing) response.destroy()
    else if (!checked.ok) this.#refuse(request, response, 'request', checked.refusal.message)
    else if (bytes > MODEL_API_BODY_BYTES_MAX) this.#refuse(request, response, 'size', BODY_TOO_LARGE)
    else if (this.#running.size >= MODEL_API_REQUESTS_MAX) this.#refuse(request, response, 'busy', TOO_MANY)
    else this.#start(request, response, checked.value)
  }

  #start(request: IncomingMessage, response: ServerResponse, checked: ModelRequest): void {
    const stop = new AbortController()
    const { access, upstream } = this.#options
    const done = exchangeWithModel({
      ...{ access, upstream, checked, request, response, mask: new SecretMask(access.secrets) },
      ...{ meter: this.#meter, gate: this.#gate, bodies: this.#bodies, stop: stop.signal },
    })
      .then((end) => this.#finish(request, response, end))
      .catch((error: unknown) => this.#fail(request, response, error))
      .finally(() => {
        this.#running.delete(stop)
        stop.abort()
      })
    this.#running.set(stop, done)
  }

  #finish(request: IncomingMessage, response: ServerResponse, problem: string | undefined): void {
    if (problem !== undefined) this.#refuseAnswer(request, response, problem)
    else this.#totals.answered += 1
  }

  // ---- refusals --------------------------------------------------------------------------------------------------

  #fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (error instanceof ModelRefusal) this.#refuse(request, response, error.kind, error.message)
    // Otherwise the agent or the whole run has ended the request.
    else if (!response.destroyed || response.headersSent)
      this.#refuseAnswer(request, response, explainBrokenAnswer(error))
  }

  #refuseAnswer(request: IncomingMessage, response: ServerResponse, why: string): void {
    this.#refuse(request, response, 'upstream', `the model’s API gave no usable answer: ${why}`)
  }

  /** An agent repeats what the worker refuses for good. */
  #isNews(kind: ModelErrorKind, line: string): boolean {
    if (kind !== 'budget' && kind !== 'request') return true
    if (this.#loggedRefusals.has(line)) return false
    if (this.#loggedRefusals.size < REFUSALS_REMEMBERED_MAX) this.#loggedRefusals.add(line)
    return true
  }

  /** An answer that has begun can only be broken off. */
  #refuse(request: IncomingMessage, response: ServerResponse, kind: ModelErrorKind, why: string): void {
    this.#totals[kind === 'upstream' ? 'failed' : 'refused'] += 1
    const [path = ''] = (request.url ?? '').split('?', 1)
    if (this.#isNews(kind, `${path} ${why}`))
      this.#log.record(path, `${kind === 'upstream' ? 'failed' : 'refused'}: ${why}`)
    if (response.headersSent || response.destroyed) return void response.destroy()
    const { status, headers, body } = modelError(this.#options.access.errorStyle, kind, why)
    response.writeHead(status, headers).end(body)
    // Discard the rest of the request, so that the agent reads the answer before the connection ends.
    request.resume()
  }
}

const REFUSALS_REMEMBERED_MAX = 100
const TOO_MANY = `${MODEL_API_REQUESTS_MAX} requests of this run are under way already`

const refuseSocket = (status: string) => (_request: IncomingMessage, socket: Duplex) =>
  endSocket(socket, status)

function endSocket(socket: Duplex, status: string): void {
  socket.on('error', () => {})
  if (!socket.writable) return void socket.destroy()
  const head = [`HTTP/1.1 ${status}`, 'content-length: 0', 'connection: close']
  socket.end(`${head.join('\r\n')}\r\n\r\n`, () => socket.destroy())
}

// ---- one request and its answer ------------------------------------------------------------------------------------

interface ModelExchange {
  readonly access: ModelAccess
  readonly upstream: ModelUpstream
  readonly meter: ModelMeter
  readonly gate: ModelGate
  readonly bodies: BodyReader
  readonly checked: ModelRequest
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly mask: SecretMask
  readonly stop: AbortSignal
}

/**
 * Takes one request to its vendor and its answer back, and tells the meter how it ended.
 *
 * A billed request that has left is seen to its end even when the agent hangs up, because the vendor bills it anyway.
 * Only `stop` ends it, and it counts its worst case then.
 *
 * Resolves with the problem of an answer that cannot be passed on. Rejects with a `ModelRefusal`, or when it breaks.
 */
async function exchangeWithModel(exchange: ModelExchange): Promise<string | undefined> {
  const { bodies, checked, gate, request } = exchange
  if (checked.method === 'GET') return sendOn(exchange, undefined, {})
  const { body, release } = await bodies.read(request)
  try {
    const passed = gate.passBody(checked.path.replace(/\?.*$/s, ''), body.value)
    if (!passed.ok) throw new ModelRefusal('request', passed.refusal.message)
    const written = body.write(passed.value)
    if (written === undefined) throw new ModelRefusal('request', 'its body can’t be written anew')
    return await sendOn(exchange, written, { body: passed.value })
  } finally {
    release()
  }
}

async function sendOn(
  { access, upstream, meter, gate, checked, response, mask, stop }: ModelExchange,
  written: WrittenBody | undefined,
  facts: Pick<Parameters<ModelMeter['begin']>[0], 'body'>,
): Promise<string | undefined> {
  const { method, path } = checked
  const headers = gate.passHeaders(checked.headers)
  const gone = signalOfClose(response)
  const waited = AbortSignal.any([stop, gone])
  const { bytes, keepsLong = false } = written ?? {}
  const begun = await meter.begin(
    { method, path, ...facts, bodyBytes: bytes?.length ?? 0, keepsLong },
    waited,
  )
  if (!begun.ok) throw waited.aborted ? new Error('gone') : new ModelRefusal('budget', begun.refusal.message)
  const counted = begun.value
  const sent: { end: RequestEnd } = { end: 'unsent' }
  // The library asks for the body once it is connected.
  const send = async function* () {
    sent.end = 'broken'
    yield bytes
  }
  try {
    const answer = await upstream.send({
      origin: access.origin,
      method,
      path,
      headers: {
        ...headers,
        ...access.credentialHeaders(headers),
        // The meter and the mask read the answer.
        'accept-encoding': 'identity',
        ...(bytes === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
      },
      ...(bytes === undefined ? {} : { body: Readable.from(send()) }),
      signal: counted.isBilled ? stop : waited,
    })
    if (answer.status >= 300) sent.end = 'refused'
    const problem = findAnswerProblem(answer)
    if (problem === undefined) await passOn(answer, response, counted, mask)
    else answer.body.on('error', () => {}).destroy()
    if (sent.end === 'broken' && problem === undefined) sent.end = 'complete'
    return problem
  } finally {
    counted.onEnd(sent.end)
  }
}

async function passOn(
  { status, headers, body }: UpstreamResponse,
  response: ServerResponse,
  counted: RequestMeter,
  mask: SecretMask,
): Promise<void> {
  const passed = headersToPass(headers, (text) => mask.maskText(text))
  counted.onResponseHead(status, passed)
  if (!response.destroyed) {
    response.writeHead(status, passed)
    response.flushHeaders()
  }
  for await (const chunk of body) {
    const bytes = mask.push(chunk)
    if (bytes.length === 0) continue
    counted.onChunk(bytes)
    await writeTo(response, bytes)
  }
  const rest = mask.flush()
  if (rest.length > 0) counted.onChunk(rest)
  if (!response.destroyed) response.end(rest)
}

/** Waits for an agent that reads slowly, but not for one that has hung up. */
function writeTo(response: ServerResponse, bytes: Buffer): Promise<void> | undefined {
  if (response.destroyed || response.write(bytes)) return undefined
  return new Promise((resolve) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle)
      resolve()
    }
    response.on('drain', settle).on('close', settle)
  })
}

function signalOfClose(response: ServerResponse): AbortSignal {
  const closed = new AbortController()
  if (response.destroyed) closed.abort()
  else response.once('close', () => closed.abort())
  return closed.signal
}
