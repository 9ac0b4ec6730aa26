/**
 * Handles HTTP requests: exactly one reply for each.
 *
 * The order of checks: framing, admission, path and method, parameters and query, body, handler. Replies that are ready within
 * the library's callback are sent there; all others go through an `Exchange`.
 */
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS_MAX } from '../protocol/limits.ts'
import type { Parsed } from '../protocol/parse.ts'
import { type Body, framingError, isJsonContent, readBody, readJsonBody } from './body.ts'
import { Exchange } from './exchange.ts'
import type { ListenerRequest, ListenerResponse } from './listener-port.ts'
import {
  type Download,
  type Headers,
  isDownload,
  type Reply,
  refusal,
  send,
  sendAndClose,
  sendWithoutBody,
} from './reply.ts'
import { chooseEncoding, ReplyCompressor } from './reply-compressor.ts'
import { type Admission, type AdmissionCheck, UNKNOWN_PATH } from './request-checks.ts'
import type { RequestCounter } from './request-counter.ts'
import { announcesBody, type RequestHead, readHead } from './request-head.ts'
import { decodeParams, percentDecode, type RouteMatch, type Router } from './router.ts'
import type { Asker, Presence, RouteParameters, ServedRoute } from './routes/route-table.ts'

export interface HttpHandlerOptions {
  readonly admit: AdmissionCheck
  readonly route: Router<ServedRoute>
  readonly clock: Clock
  readonly log: Log
  readonly counter: RequestCounter
  /** Whether another process owns the data directory by now, so that nothing that is known here may be answered. */
  readonly isTakenOver?: () => boolean
  /** The longest body; HTTP_BODY_BYTES_MAX when absent. */
  readonly bodyBytesMax?: number
  /** Whether answers are compressed for clients that take gzip. */
  readonly compresses?: boolean
}

export const STOPPING_REFUSAL = refusal(503, 'the service is stopping', [['connection', 'close']])
const BAD_ENCODING = 'the path or the query is not valid percent-encoded UTF-8'
const TOO_LATE = refusal(408, `the body did not arrive within ${HTTP_BODY_SECONDS_MAX} seconds`)
const INTERNAL_ERROR = refusal(500, 'the service failed on this request; its log says why')

const NO_BYTES = new Uint8Array()

/** A request after its checks, kept beyond the library's callback. */
interface CheckedRequest {
  readonly row: ServedRoute
  readonly placed: RouteParameters
  readonly asker: Asker | undefined
  readonly isJson: boolean
}

/** `undefined`: the reply comes later. */
interface HttpDecision {
  readonly reply: Reply | undefined
  readonly cors: Headers | undefined
}

export class HttpHandler {
  readonly #options: HttpHandlerOptions
  readonly #bytesMax: number
  readonly #tooLarge: Reply
  readonly #compressor: ReplyCompressor | undefined
  readonly #waiting = new Set<Exchange>()
  #isRefusing = false

  constructor(options: HttpHandlerOptions) {
    this.#options = options
    this.#bytesMax = options.bodyBytesMax ?? HTTP_BODY_BYTES_MAX
    this.#compressor = options.compresses === true ? new ReplyCompressor() : undefined
    this.#tooLarge = refusal(413, `the body is larger than ${this.#bytesMax} bytes`)
  }

  /** From now on every new request is refused with 503. */
  refuseNew(): void {
    this.#isRefusing = true
  }

  isRefusing(): boolean {
    return this.#isRefusing || this.#options.isTakenOver?.() === true
  }

  /** How many clients still wait for a reply. */
  pendingCount(): number {
    return this.#waiting.size
  }

  handle(response: ListenerResponse, request: ListenerRequest): void {
    const head = readHead(request)
    const found = this.#options.route(head.path)
    const row = found?.path.byMethod.get(head.method)
    const fault = framingError(head)
    if (fault !== undefined) {
      const refused = refusal(400, fault)
      this.#options.counter.count(row, refused.status)
      sendAndClose(response, refused)
      return
    }
    const { reply, cors } = this.#decide(response, head, found, row)
    if (reply === undefined) return
    this.#options.counter.count(row, reply.status)
    if (head.method === 'HEAD') sendWithoutBody(response, reply, cors)
    else send(response, reply, cors)
  }

  /** Never throws, because the library ends the process when a callback throws. */
  #decide(
    response: ListenerResponse,
    head: RequestHead,
    found: RouteMatch<ServedRoute> | undefined,
    row: ServedRoute | undefined,
  ): HttpDecision {
    try {
      const admission = this.#options.admit(head, found, row)
      if (admission.refused !== undefined) return { reply: admission.refused, cors: admission.cors }
      return { reply: this.#routeRequest(response, head, found, row, admission), cors: admission.cors }
    } catch (err) {
      this.#options.log.error({ err }, 'could not answer a request')
      return { reply: INTERNAL_ERROR, cors: undefined }
    }
  }

  /** `undefined`: the reply comes later. */
  #routeRequest(
    response: ListenerResponse,
    head: RequestHead,
    found: RouteMatch<ServedRoute> | undefined,
    row: ServedRoute | undefined,
    { cors, asker }: Admission,
  ): Reply | undefined {
    if (found === undefined) return UNKNOWN_PATH
    if (row === undefined) return methodRefused(head.method, found.path.allow)
    if (this.isRefusing()) return STOPPING_REFUSAL
    const placed = readParameters(row, found, head.query)
    if (!placed.ok) return refusal(400, placed.error)
    const asked = { row, placed: placed.value, asker, isJson: isJsonContent(head.contentType) }
    // A socket path has one answer to an ordinary request, with or without a body.
    if (announcesBody(head) && !row.socket) return this.#receiveBody(response, head, asked, cors)
    const presence = { hasGone: false }
    const made = this.#runHandler(asked, NO_BYTES, presence)
    const reply = takesGzip(head) ? (this.#compressor?.compress(made) ?? made) : made
    if (!(reply instanceof Promise)) return reply
    const exchange = new Exchange(response, cors)
    exchange.onEnd(() => {
      presence.hasGone = true
    })
    return this.#replyLater(exchange, row, reply)
  }

  #receiveBody(
    response: ListenerResponse,
    head: RequestHead,
    asked: CheckedRequest,
    cors: Headers | undefined,
  ): undefined {
    const exchange = new Exchange(response, cors)
    this.#track(exchange)
    const use = asked.row.takesBody ? 'kept' : 'counted'
    readBody(
      response,
      head,
      use,
      this.#options.clock,
      exchange,
      (body) => this.#onBody(exchange, asked, body),
      this.#bytesMax,
    )
  }

  #onBody(exchange: Exchange, asked: CheckedRequest, body: Body): void {
    if (body.is === 'whole') this.#respond(exchange, asked, body.bytes)
    else if (body.is === 'late') this.#replyAndClose(exchange, asked.row, TOO_LATE)
    else {
      this.#options.counter.count(asked.row, this.#tooLarge.status)
      exchange.replyBeforeBodyEnds(this.#tooLarge, body.onRestReceived, this.#options.clock)
    }
  }

  #respond(exchange: Exchange, asked: CheckedRequest, bytes: Uint8Array): void {
    const reply = this.#runHandler(asked, bytes, {
      get hasGone() {
        return exchange.isOver
      },
    })
    if (reply instanceof Promise) this.#replyLater(exchange, asked.row, reply)
    else this.#sendReply(exchange, asked.row, reply)
  }

  /** A handler that throws is a bug: the client receives 500, and the log the details. */
  #runHandler(
    { row, placed, asker, isJson }: CheckedRequest,
    bytes: Uint8Array,
    presence: Presence,
  ): Reply | Promise<Reply | Download> {
    try {
      const body = readJsonBody(row, isJson, bytes)
      return body.ok ? row.run(placed, body.value, asker, presence) : body.reply
    } catch (err) {
      return this.#internalError(row, err)
    }
  }

  #replyLater(exchange: Exchange, row: ServedRoute, reply: Promise<Reply | Download>): undefined {
    this.#track(exchange)
    reply
      .then((made) =>
        isDownload(made) ? this.#sendDownload(exchange, row, made) : this.#sendReply(exchange, row, made),
      )
      .catch((err: unknown) => this.#sendReply(exchange, row, this.#internalError(row, err)))
  }

  async #sendDownload(exchange: Exchange, row: ServedRoute, file: Download): Promise<void> {
    if (await exchange.download(file)) this.#options.counter.count(row, file.status)
  }

  #sendReply(exchange: Exchange, row: ServedRoute, reply: Reply): void {
    if (exchange.reply(reply)) this.#options.counter.count(row, reply.status)
  }

  #replyAndClose(exchange: Exchange, row: ServedRoute, reply: Reply): void {
    this.#options.counter.count(row, reply.status)
    exchange.replyAndClose(reply)
  }

  #track(exchange: Exchange): void {
    if (this.#waiting.has(exchange)) return
    this.#waiting.add(exchange)
    exchange.onEnd(() => this.#waiting.delete(exchange))
  }

  #internalError(row: ServedRoute, err: unknown): Reply {
    this.#options.log.error({ err, route: row.name }, 'a route handler failed')
    return INTERNAL_ERROR
  }
}

const takesGzip = ({ method, acceptEncoding }: RequestHead): boolean =>
  method === 'GET' && chooseEncoding(acceptEncoding, ['gzip']) !== undefined

function methodRefused(method: string, allow: string): Reply {
  const shownMethod = /^[A-Z]{1,16}$/.test(method) ? method : 'this method'
  return refusal(405, `${shownMethod} is not possible at this path; use ${allow}`, [['allow', allow]])
}

/** Checks the percent-encoding first, because URLSearchParams silently accepts broken encoding. */
function readParameters(
  row: ServedRoute,
  found: RouteMatch<ServedRoute>,
  query: string,
): Parsed<RouteParameters> {
  const params = decodeParams(found)
  if (params === undefined || percentDecode(query) === undefined) return { ok: false, error: BAD_ENCODING }
  return row.readParameters(params, query)
}
