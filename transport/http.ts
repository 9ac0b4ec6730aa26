/**
 * A request in, exactly one reply out.
 *
 * In this order: the fences, then whether path and method exist, then parameters and query, then the body, then the
 * handler. What can be answered within the listener's callback is; for the rest an Exchange stands in.
 */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import type { Clock, Log } from '../core/ports.ts'
import { HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS_MAX } from '../protocol/limits.ts'
import type { Parsed } from '../protocol/parse.ts'
import { type Body, framingFault, readBody } from './body.ts'
import { Exchange } from './exchange.ts'
import { isJsonContent, readJsonBody } from './json-body.ts'
import {
  type Download,
  type Headers,
  isDownload,
  type Reply,
  refusal,
  send,
  sendWithoutBody,
} from './reply.ts'
import { type Admission, type Admit, UNKNOWN_PATH } from './request-checks.ts'
import type { Tally } from './request-counter.ts'
import { announcesBody, type Head, queryOf, readHead } from './request-head.ts'
import { decoded, decodeParams, type Found, type Router } from './router.ts'
import type { Placed, Row } from './routes/route-table.ts'

export interface HttpParts {
  readonly admit: Admit
  readonly route: Router<Row>
  readonly clock: Clock
  readonly log: Log
  readonly tally: Tally
  /** The longest body; HTTP_BODY_BYTES_MAX when absent. */
  readonly bodyBytesMax?: number
}

export interface HttpDoor {
  answer(response: HttpResponse, request: HttpRequest): void
  /** From now on every new request is refused with 503. */
  shut(): void
  isShut(): boolean
  /** Replies that somebody still waits for. */
  waiting(): number
}

export const CLOSING = refusal(503, 'the service is stopping', [['connection', 'close']])
const BAD_ENCODING = 'the path or the query is not valid percent-encoded UTF-8'
const TOO_LATE = refusal(408, `the body did not arrive within ${HTTP_BODY_SECONDS_MAX} seconds`)
const OUR_FAULT = refusal(500, 'the service failed on this request; its log says why')

const NO_BYTES = new Uint8Array()

/** What survives the callback of a request that is not answered within it. */
interface Asked {
  readonly row: Row
  readonly placed: Placed
  readonly workerId: string | undefined
  readonly isJson: boolean
}

/** `undefined`: the reply comes later. */
interface Decided {
  readonly reply: Reply | undefined
  readonly cors: Headers | undefined
}

export function httpDoor({ admit, route, clock, log, tally, bodyBytesMax }: HttpParts): HttpDoor {
  const bytesMax = bodyBytesMax ?? HTTP_BODY_BYTES_MAX
  const tooLarge = refusal(413, `the body is larger than ${bytesMax} bytes`)
  const waiting = new Set<Exchange>()
  let shut = false

  function answer(response: HttpResponse, request: HttpRequest): void {
    const head = readHead(request)
    const found = route(head.path)
    const row = found?.place.byMethod.get(head.method)
    const { reply, cors } = decide(response, request, head, found)
    if (reply === undefined) return
    tally.count(row, reply.status)
    if (head.method === 'HEAD') sendWithoutBody(response, reply, cors)
    else send(response, reply, cors)
  }

  /** Nothing may escape from here: the listener ends the process over an exception in a callback of its own. */
  function decide(
    response: HttpResponse,
    request: HttpRequest,
    head: Head,
    found: Found<Row> | undefined,
  ): Decided {
    let read: string | undefined
    const query = (): string => {
      read ??= queryOf(request)
      return read
    }
    try {
      const admission = admit(head, found, query)
      if (admission.refused !== undefined) return { reply: admission.refused, cors: admission.cors }
      return { reply: consider(response, query, head, found, admission), cors: admission.cors }
    } catch (err) {
      log.error({ err }, 'a request could not be answered')
      return { reply: OUR_FAULT, cors: undefined }
    }
  }

  /** `undefined`: the reply comes later. */
  function consider(
    response: HttpResponse,
    query: () => string,
    head: Head,
    found: Found<Row> | undefined,
    { cors, workerId }: Admission,
  ): Reply | undefined {
    if (found === undefined) return UNKNOWN_PATH
    const row = found.place.byMethod.get(head.method)
    if (row === undefined) return methodRefused(head.method, found.place.allow)
    if (shut) return CLOSING
    const placed = place(row, found, query())
    if (!placed.ok) return refusal(400, placed.error)
    const asked = { row, placed: placed.value, workerId, isJson: isJsonContent(head.contentType) }
    // A path for sockets has one answer to an ordinary request, whatever comes behind the head.
    if (announcesBody(head) && !row.socket) return takeBody(response, head, asked, cors)
    const reply = run(asked, NO_BYTES)
    if (!(reply instanceof Promise)) return reply
    return later(new Exchange(response, cors), row, reply)
  }

  function takeBody(response: HttpResponse, head: Head, asked: Asked, cors: Headers | undefined): undefined {
    const exchange = new Exchange(response, cors)
    const fault = framingFault(head)
    if (fault !== undefined) {
      hangUp(exchange, asked.row, refusal(400, fault))
      return
    }
    wait(exchange)
    const use = asked.row.takesBody ? 'kept' : 'counted'
    readBody(response, head, use, clock, exchange, (body) => bodyCame(exchange, asked, body), bytesMax)
  }

  function bodyCame(exchange: Exchange, asked: Asked, body: Body): void {
    if (body.is === 'whole') finish(exchange, asked, body.bytes)
    else if (body.is === 'late') hangUp(exchange, asked.row, TOO_LATE)
    else {
      tally.count(asked.row, tooLarge.status)
      exchange.replyBeforeTheRest(tooLarge, body.rest, clock)
    }
  }

  function finish(exchange: Exchange, asked: Asked, bytes: Uint8Array): void {
    const reply = run(asked, bytes)
    if (reply instanceof Promise) later(exchange, asked.row, reply)
    else say(exchange, asked.row, reply)
  }

  /** A handler that throws is a bug; the client learns that much, the log learns the rest. */
  function run(
    { row, placed, workerId, isJson }: Asked,
    bytes: Uint8Array,
  ): Reply | Promise<Reply | Download> {
    try {
      const body = readJsonBody(row, isJson, bytes)
      return body.ok ? row.run(placed, body.value, workerId) : body.reply
    } catch (err) {
      return bug(row, err)
    }
  }

  function later(exchange: Exchange, row: Row, reply: Promise<Reply | Download>): undefined {
    wait(exchange)
    reply
      .then((made) => (isDownload(made) ? hand(exchange, row, made) : say(exchange, row, made)))
      .catch((err: unknown) => say(exchange, row, bug(row, err)))
  }

  async function hand(exchange: Exchange, row: Row, file: Download): Promise<void> {
    if (await exchange.download(file)) tally.count(row, file.status)
  }

  function say(exchange: Exchange, row: Row, reply: Reply): void {
    if (exchange.reply(reply)) tally.count(row, reply.status)
  }

  function hangUp(exchange: Exchange, row: Row, reply: Reply): void {
    tally.count(row, reply.status)
    exchange.replyAndHangUp(reply)
  }

  function wait(exchange: Exchange): void {
    if (waiting.has(exchange)) return
    waiting.add(exchange)
    exchange.whenOver(() => waiting.delete(exchange))
  }

  function bug(row: Row, err: unknown): Reply {
    log.error({ err, route: row.name }, 'a route handler failed')
    return OUR_FAULT
  }

  return {
    answer,
    shut: () => {
      shut = true
    },
    isShut: () => shut,
    waiting: () => waiting.size,
  }
}

function methodRefused(method: string, allow: string): Reply {
  const said = /^[A-Z]{1,16}$/.test(method) ? method : 'this method'
  return refusal(405, `${said} is not possible here; ${allow} is`, [['allow', allow]])
}

/** Percent-decoded once. URLSearchParams alone would read broken encoding as if it were meant. */
function place(row: Row, found: Found<Row>, query: string): Parsed<Placed> {
  const params = decodeParams(found)
  if (params === undefined || decoded(query) === undefined) return { ok: false, error: BAD_ENCODING }
  return row.place(params, query)
}
