/** `ConnectionPools` keeps the open connections to services, directly or through a proxy. */
import { createSecureContext, type SecureContext } from 'node:tls'
import { Agent, type buildConnector, Pool, ProxyAgent } from 'undici'
import { HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import type { HttpOptions, HttpReply, HttpRequest } from './http-types.ts'
import type { ProxyAddress } from './proxy-selection.ts'
import { isLoopbackUrl, publicOnlyLookup } from './public-addresses.ts'

const CONNECT_MS_MAX = 10_000
/** Connections per origin: enough for concurrent requests about every repository and for people's requests. */
const CONNECTIONS_MAX = 64
/** Idle connections are closed before a gateway silently drops them, because a request on such a connection is lost. */
const IDLE_CONNECTION_MS_MAX = 15_000
/** The upper limit for the keep-alive time that a service suggests. */
const IDLE_CONNECTION_HINT_MS_MAX = 60_000

/** The open connections: direct ones and those through each proxy. */
export class ConnectionPools {
  readonly #clock: HttpOptions['clock']
  readonly #certificateAuthorities: HttpOptions['certificateAuthorities']
  readonly #options: Agent.Options
  readonly #direct: Agent
  readonly #publicOnly: Agent
  /** By proxy address and login; at most one per scheme. */
  readonly #tunnelAgents = new Map<string, ProxyAgent>()
  readonly #closing = new AbortController()
  #tlsContext: SecureContext | undefined

  constructor({ clock, certificateAuthorities: authorities, lookup }: HttpOptions) {
    this.#clock = clock
    this.#certificateAuthorities = authorities
    this.#options = {
      connections: CONNECTIONS_MAX,
      keepAliveTimeout: IDLE_CONNECTION_MS_MAX,
      keepAliveMaxTimeout: IDLE_CONNECTION_HINT_MS_MAX,
    }
    this.#direct = this.#createAgent(lookup === undefined ? {} : { lookup })
    this.#publicOnly = this.#createAgent({ lookup: publicOnlyLookup(lookup) })
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(
      [this.#direct, this.#publicOnly, ...this.#tunnelAgents.values()].map((agent) => agent.destroy()),
    )
  }

  /** Waits for `ms`, or until the connections are closed. */
  async pause(ms: number): Promise<void> {
    const { signal } = this.#closing
    if (signal.aborted) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(ms, () => {
        signal.removeEventListener('abort', onClose)
        resolve()
      })
      const onClose = () => {
        cancel()
        resolve()
      }
      signal.addEventListener('abort', onClose, { once: true })
    })
  }

  dispatch(request: HttpRequest, url: URL, proxy: ProxyAddress | undefined, reader: ResponseReader): void {
    const { method, headers, body } = request
    const { origin, protocol, host, pathname, search } = url
    const path = pathname + search
    const message = { method, headers, ...(body === undefined ? {} : { body }) }
    const direct = mustBePublic(request, url) ? this.#publicOnly : this.#direct
    if (proxy === undefined) direct.dispatch({ origin, path, ...message }, reader)
    // Most proxies open tunnels only for https. Plain http requests are sent to the proxy with an absolute address.
    else if (protocol === 'http:' && /^http/.test(proxy.url.protocol)) {
      const login =
        proxy.login === undefined ? {} : { 'proxy-authorization': basicAuthorization(proxy.login) }
      const absoluteTarget = { origin: proxy.url.origin, path: origin + path }
      this.#direct.dispatch(
        { ...message, ...absoluteTarget, headers: { ...headers, host, ...login } },
        reader,
      )
    } else this.#tunnelAgent(proxy).dispatch({ origin, path, ...message }, reader)
  }

  #tunnelAgent(proxy: ProxyAddress): ProxyAgent {
    const key = JSON.stringify([proxy.url.href, proxy.login])
    const known = this.#tunnelAgents.get(key)
    if (known !== undefined) return known
    const connect = { ...this.#tlsOptions(), timeout: CONNECT_MS_MAX }
    const agent = new ProxyAgent(tunnelOptions(proxy, { ...this.#options, connect }))
    this.#tunnelAgents.set(key, agent)
    return agent
  }

  #createAgent(connectOptions: buildConnector.BuildOptions): Agent {
    const plain = { ...connectOptions, timeout: CONNECT_MS_MAX }
    const connect = (origin: string) =>
      origin.startsWith('https:') ? { ...plain, ...this.#tlsOptions() } : plain
    return new Agent({
      ...this.#options,
      factory: (origin, options) => new Pool(origin, { ...options, connect: connect(String(origin)) }),
    })
  }

  /**
   * Creates the TLS context once, for the first encrypted connection. Parsing hundreds of certificates takes longer
   * than the rest of connecting, and a quarter of the host's start time.
   */
  #tlsOptions(): buildConnector.BuildOptions {
    if (this.#certificateAuthorities === undefined) return CHECKED
    this.#tlsContext ??= createSecureContext({ ca: [...this.#certificateAuthorities], minVersion: 'TLSv1.2' })
    return { ...CHECKED, secureContext: this.#tlsContext }
  }
}

/** Written out, because a variable of the environment would otherwise turn the check of certificates off. */
const CHECKED = { rejectUnauthorized: true } as const

function tunnelOptions({ url, login }: ProxyAddress, options: Agent.Options): ProxyAgent.Options {
  const tls = typeof options.connect === 'object' ? options.connect : {}
  const isSocks = url.protocol.startsWith('socks')
  return {
    ...options,
    uri: url.href,
    requestTls: tls,
    // With this option undici would speak TLS to a SOCKS proxy, which does not understand it.
    ...(isSocks ? {} : { proxyTls: tls }),
    // A proxy that accepts the connection without answering would otherwise occupy it for minutes.
    clientFactory: (origin, clientOptions) =>
      new Pool(origin, { ...clientOptions, headersTimeout: CONNECT_MS_MAX }),
    ...(login === undefined
      ? {}
      : isSocks
        ? { username: login.user, password: login.password }
        : { token: basicAuthorization(login) }),
  }
}

function basicAuthorization({
  user,
  password,
}: {
  readonly user: string
  readonly password: string
}): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

/** A loopback address in the settings is intended, so `publicOnly` does not apply to it. */
export const mustBePublic = ({ publicOnly }: HttpRequest, url: URL): boolean =>
  publicOnly === true && !isLoopbackUrl(url)

// ---- one response --------------------------------------------------------------------------------------------------

interface ConnectionController {
  abort(reason: Error): void
}

type RawHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/**
 * Collects one HTTP response: whole, limited in size, and abortable at any time. Undici calls the `on…` methods as the
 * response arrives; calls after the end have no effect.
 *
 * The class implements undici's dispatch handler directly. A stream and an abort signal per response would cost more
 * than the rest of the request, and no caller reads a response before it is complete.
 */
export class ResponseReader {
  /** Resolves with undefined when the response was too long. Rejects when no complete response arrived. */
  readonly reply: Promise<HttpReply | undefined>
  #connection: ConnectionController | undefined
  #statusAndHeaders: Omit<HttpReply, 'text'> | undefined
  #chunks: Buffer[] = []
  #bytes = 0
  #abortError: Error | undefined
  #resolve: (reply: HttpReply | undefined) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get isAborted(): boolean {
    return this.#abortError !== undefined
  }

  /** Ends the request because its time is over. */
  abort(): void {
    this.#end(new Error('the response took too long'))
  }

  // ---- called by undici ----------------------------------------------------------------------------------------------

  /** Undici calls this again when it repeats the request over another connection. */
  onRequestStart(connection: ConnectionController): void {
    this.#connection = connection
    if (this.#abortError !== undefined) connection.abort(this.#abortError)
  }

  /** Undici calls this again after an interim response such as 103. */
  onResponseStart(_connection: ConnectionController, status: number, headers: RawHeaders): void {
    this.#statusAndHeaders = { status, headers: firstValues(headers) }
  }

  onResponseData(_connection: ConnectionController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes <= HTTP_ANSWER_BYTES_MAX) {
      this.#chunks.push(chunk)
      return
    }
    this.#resolve(undefined)
    this.#end(new Error('the response is too long'))
  }

  onResponseEnd(): void {
    const [only = EMPTY_BODY, ...more] = this.#chunks
    const bytes = more.length === 0 ? only : Buffer.concat(this.#chunks)
    if (this.#statusAndHeaders === undefined)
      this.#reject(new Error('the response ended before its headers arrived'))
    else this.#resolve({ ...this.#statusAndHeaders, text: bytes.toString('utf8') })
  }

  onResponseError(_connection: ConnectionController, error: Error): void {
    this.#end(error)
  }

  #end(error: Error): void {
    this.#abortError ??= error
    this.#chunks = []
    this.#connection?.abort(error)
    this.#reject(error)
  }
}

const EMPTY_BODY = Buffer.alloc(0)

function firstValues(headers: RawHeaders): Record<string, string> {
  const first: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const firstValue = typeof value === 'object' ? value[0] : value
    if (firstValue !== undefined) first[name] = firstValue
  }
  return first
}
