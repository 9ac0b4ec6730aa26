/** `DialedUpstream` contacts vendors from this machine, directly or through its proxy, and shares connections. */
import type { Readable } from 'node:stream'
import { createSecureContext } from 'node:tls'
import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import { MODEL_API_HEADER_BYTES_MAX, MODEL_API_IDLE_MS_MAX } from '../../protocol/limits.ts'
import type { HttpOptions } from '../../providers/http/http-types.ts'

/**
 * `ModelUpstream` is the port through which the proxy contacts vendors.
 *
 * An implementation verifies certificates, follows no redirect, decodes nothing and buffers nothing.
 */
export interface ModelUpstream {
  /** Resolves with the head of any answer. Rejects when there is none; no message holds a header or a body. */
  send(request: UpstreamRequest): Promise<UpstreamResponse>
  close(): Promise<void>
}

export interface UpstreamRequest {
  readonly origin: string
  readonly path: string
  readonly method: 'GET' | 'POST'
  /** Names in lower case, the credential among them. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Readable
  /** Ends the request and the body of its answer. */
  readonly signal: AbortSignal
}

export interface UpstreamResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Readable
}

const MODEL_API_CONNECT_MS_MAX = 10_000
/** Connections of a worker to one vendor. */
const MODEL_API_CONNECTIONS_MAX = 256

/** Proxies and trusted authorities of this network. */
export type UpstreamNetwork = Pick<HttpOptions, 'proxies' | 'certificateAuthorities'>

export class DialedUpstream implements ModelUpstream {
  readonly #network: UpstreamNetwork
  #opened: Dispatcher | undefined

  constructor(network: UpstreamNetwork) {
    this.#network = network
  }

  async send({ origin, path, method, headers, body, signal }: UpstreamRequest): Promise<UpstreamResponse> {
    // Parsing the trusted certificates takes a while, so the first request does it and not the worker's start.
    this.#opened ??= openDispatcher(this.#network)
    const answer = await this.#opened.request({ origin, path, method, headers, body: body ?? null, signal })
    return { status: answer.statusCode, headers: answer.headers, body: answer.body }
  }

  async close(): Promise<void> {
    await this.#opened?.destroy()
  }
}

function openDispatcher({ proxies, certificateAuthorities: ca }: UpstreamNetwork): Dispatcher {
  const trust =
    ca === undefined ? {} : { secureContext: createSecureContext({ ca: [...ca], minVersion: 'TLSv1.2' }) }
  const tls = { ...trust, rejectUnauthorized: true }
  const options = {
    connect: { ...tls, timeout: MODEL_API_CONNECT_MS_MAX },
    connections: MODEL_API_CONNECTIONS_MAX,
    maxHeaderSize: MODEL_API_HEADER_BYTES_MAX,
    headersTimeout: MODEL_API_IDLE_MS_MAX,
    bodyTimeout: MODEL_API_IDLE_MS_MAX,
  }
  if (proxies === undefined) return new Agent(options)
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy: proxies.http,
    httpsProxy: proxies.https,
    noProxy: proxies.noProxy,
    requestTls: tls,
    // The library would also use TLS towards a SOCKS proxy.
    ...(/^socks/.test(proxies.https) ? {} : { proxyTls: tls }),
  })
}
