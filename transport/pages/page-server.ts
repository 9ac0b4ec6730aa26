/**
 * A listener of its own on loopback for a page: its files, its sessions, and the host's interface with a cookie in the
 * token's place.
 *
 * Files contain nothing of the host and need no cookie. Everything under /api and /ws does. The launch token never
 * passes through here: the forwarder adds it behind.
 */
import type { Clock } from '../../core/ports/clock.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { HTTP_ANSWER_BYTES_MAX, HTTP_BODY_BYTES_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { type Body, framingError, readBody } from '../body.ts'
import type { Exchange } from '../exchange.ts'
import { CLOSE_MS_MAX } from '../host-server.ts'
import {
  createApp,
  type ListenerApp,
  type ListenerRequest,
  type ListenerResponse,
  listen,
  type OpenPort,
} from '../listener-port.ts'
import {
  type Download,
  type Headers,
  json,
  type Reply,
  refusal,
  send,
  sendAndClose,
  sendWithoutBody,
} from '../reply.ts'
import { chooseEncoding } from '../reply-compressor.ts'
import { createSecretCheck, isLoopbackHost } from '../request-checks.ts'
import { announcesBody, type RequestHead } from '../request-head.ts'
import { PageFiles, writeFile } from './page-files.ts'
import {
  type ForwardedReply,
  type ForwardedRequest,
  type HostForwarder,
  PageExchanges,
  type PageServer,
  type PageServerOptions,
} from './page-server-options.ts'
import {
  type BrowserRequest,
  CODE_PATH,
  cookieLine,
  cookieNameOf,
  linkTo,
  PageSessions,
  readBrowserRequest,
  readCode,
  readProgramSecret,
  refuseActive,
  refuseForeign,
  refuseMethod,
} from './page-sessions.ts'
import { PageSockets, ProgramSockets } from './page-sockets.ts'

/** The body that signs a browser in, and how many of them may be on their way; one more ends the oldest. */
export const PAGE_SESSION_BYTES_MAX = 1024

export async function openPageServer(options: PageServerOptions): Promise<Result<PageServer>> {
  const { address } = options
  if (!isLoopbackHost(address.host))
    return no('invalid', `a page is served on loopback only, and ${address.host} is not loopback`)
  const app = createApp(options.listener)
  if (!app.ok) return app
  const page = new PageListener(options, app.value)
  const open = await listen(app.value, address, options.portSetting)
  if (!open.ok) return open
  return yes(page.start(open.value))
}

const SESSION_PATH = '/session'
const DRAIN_POLL_MS = 20

const NOT_FOUND = refusal(404, 'the page has no such file')
const BUSY = refusal(503, 'too many requests wait for the host; try again in a moment', [
  ['retry-after', '1'],
])

class PageListener {
  readonly #options: PageServerOptions
  readonly #app: ListenerApp
  readonly #sessions: PageSessions
  readonly #files: PageFiles
  readonly #sockets: PageSockets
  readonly #programs: ProgramSockets | undefined
  readonly #exchanges = new PageExchanges()
  readonly #signedOut: Reply
  readonly #isLinkSecret: (presented: string | undefined) => boolean
  #port = 0

  constructor(options: PageServerOptions, app: ListenerApp) {
    this.#options = options
    this.#app = app
    this.#sessions = new PageSessions(options.clock)
    this.#files = new PageFiles(options.folder)
    this.#isLinkSecret = createSecretCheck(options.linkSecret)
    this.#signedOut = refusal(
      401,
      `this browser is not signed in; run "${options.command}" and open the link that it prints`,
    )
    const admit = (request: BrowserRequest) => refuseForeign(request) ?? this.#refuseSignedOut(request)
    this.#sockets = new PageSockets({ clock: options.clock, forwarder: options.forwarder, admit })
    for (const path of options.sockets) this.#sockets.serve(app, path)
    this.#programs = this.#servePrograms(app)
    app.any((response, request) => this.#handle(response, request))
  }

  start(open: OpenPort): PageServer {
    this.#port = open.port
    return {
      port: open.port,
      createLink: () => linkTo(open.port, this.#sessions.createCode()),
      close: (reason) => this.#close(open, reason),
    }
  }

  #servePrograms(app: ListenerApp): ProgramSockets | undefined {
    const { programs, clock } = this.#options
    if (programs === undefined) return undefined
    const sockets = new ProgramSockets({
      clock,
      source: programs.source,
      takesCode: (code) => this.#sessions.takeCode(code),
      signedOut: this.#signedOut,
    })
    sockets.serve(app, programs.path)
    return sockets
  }

  #refuseSignedOut({ cookies }: BrowserRequest): Reply | undefined {
    return this.#sessions.isSignedIn(cookies, cookieNameOf(this.#port)) ? undefined : this.#signedOut
  }

  /** Never throws, because the library ends the process when a callback throws. */
  #handle(response: ListenerResponse, request: ListenerRequest): void {
    try {
      this.#answer(response, request)
    } catch (err) {
      this.#options.log.error({ err }, 'could not answer a request of a page')
      send(response, refusal(500, 'the page failed on this request; the log says why'))
    }
  }

  #answer(response: ListenerResponse, request: ListenerRequest): void {
    const read = readBrowserRequest(request)
    const { head } = read
    const fault = framingError(head)
    if (fault !== undefined) {
      sendAndClose(response, refusal(400, fault))
      return
    }
    const refused = refuseForeign(read) ?? refuseMethod(head)
    if (refused !== undefined) answerWith(response, head, refused)
    else if (head.path === SESSION_PATH) this.#signIn(response, head)
    else if (head.path === CODE_PATH) answerWith(response, head, this.#createCode(read))
    else if (this.#options.forwards(head.path)) this.#forward(response, read)
    else if (this.#options.documents?.has(head.path) === true) this.#sendDocument(response, read)
    else this.#sendFile(response, head)
  }

  #sendFile(response: ListenerResponse, head: RequestHead): void {
    const file = this.#files.find(head.path)
    if (!['GET', 'HEAD'].includes(head.method) || file === undefined) answerWith(response, head, NOT_FOUND)
    else writeFile(response, file, head)
  }

  #sendDocument(response: ListenerResponse, read: BrowserRequest): void {
    const make = this.#options.documents?.get(read.head.path)
    const refused = this.#refuseSignedOut(read) ?? refuseActive(read)
    if (refused !== undefined || make === undefined) answerWith(response, read.head, refused ?? NOT_FOUND)
    else {
      const exchange = this.#exchanges.start(response)
      Promise.resolve(make()).then(
        (reply) => exchange.reply(reply),
        (err: unknown) => {
          this.#options.log.error({ err }, 'could not answer a request of a page')
          exchange.reply(refusal(500, 'the page failed on this request; the log says why'))
        },
      )
    }
  }

  #signIn(response: ListenerResponse, head: RequestHead): void {
    if (head.method !== 'POST') {
      answerWith(response, head, refusal(405, 'use POST', [['allow', 'POST']]))
      return
    }
    const exchange = this.#exchanges.startSignIn(response)
    readPageBody(response, head, PAGE_SESSION_BYTES_MAX, this.#options.clock, exchange, (bytes) => {
      const cookie = this.#sessions.exchange(readCode(bytes))
      if (cookie === undefined) exchange.reply(this.#signedOut)
      else {
        const headers = [['set-cookie', cookieLine(this.#port, cookie)]] as const
        exchange.reply({ status: 204, type: '', body: '', headers })
      }
    })
  }

  /** A browser has no business here: it gets its code from a link. */
  #createCode(read: BrowserRequest): Reply {
    if (!this.#isLinkSecret(readProgramSecret(read))) return this.#signedOut
    return json({ code: this.#sessions.createCode() })
  }

  #forward(response: ListenerResponse, read: BrowserRequest): void {
    const { head } = read
    const refused =
      this.#refuseSignedOut(read) ?? refuseActive(read) ?? (this.#exchanges.mayForward() ? undefined : BUSY)
    if (refused !== undefined) {
      answerWith(response, head, refused)
      return
    }
    const { method, query, contentType } = head
    const path = `${head.path}${query === '' ? '' : `?${query}`}`
    const acceptEncoding = chooseEncoding(head.acceptEncoding, ['gzip']) ?? ''
    const asked: Omit<ForwardedRequest, 'signal'> = {
      method,
      path,
      contentType,
      acceptEncoding,
      body: undefined,
    }
    const exchange = this.#exchanges.startForward(response)
    if (!announcesBody(head)) this.#startForward(asked, exchange)
    else
      readPageBody(response, head, HTTP_BODY_BYTES_MAX, this.#options.clock, exchange, (body) =>
        this.#startForward({ ...asked, body }, exchange),
      )
  }

  #startForward(request: Omit<ForwardedRequest, 'signal'>, exchange: Exchange): void {
    forwardRequest(this.#options.forwarder, request, exchange).catch((err: unknown) => {
      this.#options.log.error({ err }, 'could not forward a request of a page')
      exchange.reply(refusal(500, 'the page failed on this request; the log says why'))
    })
  }

  #socketCount(): number {
    return this.#sockets.count() + (this.#programs?.count() ?? 0)
  }

  async #close(open: OpenPort, reason: string): Promise<void> {
    const { clock } = this.#options
    open.stop()
    this.#sockets.closeAll(reason)
    this.#programs?.closeAll(reason)
    const until = clock.monotonic() + CLOSE_MS_MAX
    do await new Promise<void>((resolve) => void clock.after(DRAIN_POLL_MS, resolve))
    while ((this.#exchanges.count() > 0 || this.#socketCount() > 0) && clock.monotonic() < until)
    this.#app.close()
  }
}

function answerWith(response: ListenerResponse, { method }: RequestHead, reply: Reply): void {
  if (method === 'HEAD') sendWithoutBody(response, reply)
  else send(response, reply)
}

// ---- forwarding ----------------------------------------------------------------------------------------------------

/** Everything else that the host says in headers is between it and this process. */
const FORWARDED_HEADERS = ['allow', 'content-disposition', 'content-encoding', 'link', 'retry-after', 'vary']
/** An answer that a browser would show as a document may do nothing. */
const INERT: Headers = [
  ['content-security-policy', "default-src 'none'; sandbox; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
]
const UNSAFE_IN_HEADER = /[^\t\x20-\x7e]/
const JSON_TYPE = 'application/json'

/** Forwards a request of the page to the host, and its answer to the page, no faster than the page reads. */
async function forwardRequest(
  forwarder: HostForwarder,
  request: Omit<ForwardedRequest, 'signal'>,
  exchange: Exchange,
): Promise<void> {
  const gone = new AbortController()
  let reply: ForwardedReply | undefined
  // Later the exchange ends the reading of the answer by itself.
  exchange.onEnd(() => {
    if (reply === undefined) gone.abort()
  })
  try {
    reply = await forwarder.send({ ...request, signal: gone.signal })
  } catch (error) {
    exchange.reply(hostAway(error))
    return
  }
  if (reply.status === 200 && request.method !== 'HEAD') await forwardBody(reply, exchange)
  else exchange.reply(await readReply(reply, request.method === 'HEAD'))
}

const hostAway = (error: unknown): Reply => refusal(503, messageOf(error), [['retry-after', '1']])

async function forwardBody(reply: ForwardedReply, exchange: Exchange): Promise<void> {
  const length = reply.header('content-length')
  const download: Download = {
    status: 200,
    type: typeOf(reply),
    size: length === undefined ? undefined : Number(length),
    headers: headersOf(reply),
    read: () => reply.body,
  }
  try {
    await exchange.download(download)
  } catch (error) {
    // Before the first part another answer is possible; after it the connection has been closed.
    exchange.reply(hostAway(error))
  }
}

/** Refusals and answers of other statuses are short. */
async function readReply(reply: ForwardedReply, isWithoutBody: boolean): Promise<Reply> {
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of reply.body) {
      bytes += part.byteLength
      if (bytes > HTTP_ANSWER_BYTES_MAX) return refusal(502, 'the answer of the host is too long')
      parts.push(part)
    }
  } catch (error) {
    return hostAway(error)
  }
  const body = isWithoutBody ? '' : Buffer.concat(parts)
  return { status: reply.status, type: typeOf(reply), body, headers: headersOf(reply) }
}

function typeOf(reply: ForwardedReply): string {
  const type = reply.header('content-type') ?? JSON_TYPE
  return UNSAFE_IN_HEADER.test(type) ? JSON_TYPE : type
}

function headersOf(reply: ForwardedReply): Headers {
  const kept = FORWARDED_HEADERS.flatMap((name): Headers => {
    const value = reply.header(name)
    return value === undefined || UNSAFE_IN_HEADER.test(value) ? [] : [[name, value]]
  })
  return [...kept, ...INERT]
}

// ---- bodies --------------------------------------------------------------------------------------------------------

const TOO_LARGE = refusal(413, 'the body is too large')
const TOO_LATE = refusal(408, 'the body did not arrive in time')

/**
 * Reads the body of a page's request whole, and answers one that is too large or does not arrive in time.
 *
 * @param use is called once with a whole body, or never
 */
function readPageBody(
  response: ListenerResponse,
  head: RequestHead,
  bytesMax: number,
  clock: Clock,
  exchange: Exchange,
  use: (bytes: Uint8Array) => void,
): void {
  const onBody = (body: Body): void => {
    if (body.is === 'whole') use(body.bytes)
    else if (body.is === 'late') exchange.replyAndClose(TOO_LATE)
    else exchange.replyBeforeBodyEnds(TOO_LARGE, body.onRestReceived, clock)
  }
  readBody(response, head, 'kept', clock, exchange, onBody, bytesMax)
}
