/**
 * `DialNetwork` is the undici dispatcher under a worker's WebSocket: a direct connection or a proxy, with the configured
 * certificate authorities.
 *
 * The dispatcher records why a connection failed, which a WebSocket does not report. `destroySocket` ends a connection
 * that a silent peer would otherwise keep open for minutes.
 */
import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'
import { isNativeError } from 'node:util/types'
import { Agent, Dispatcher, EnvHttpProxyAgent } from 'undici'
import { WORKER_FRAME_BYTES_MAX } from '../protocol/limits.ts'
import type { ProxySettings } from '../providers/http/http-types.ts'

const REASON_CHARS_MAX = 300
export const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
export const UNTRUSTED_HINT = '; name the certificate of its authority with --ca-file'

export class DialNetwork extends Dispatcher {
  /** Read by the WebSocket: a larger message closes the connection. */
  readonly webSocketOptions = { maxPayloadSize: WORKER_FRAME_BYTES_MAX }
  failure: string | undefined
  /** False if the WebSocket refused the port before it dispatched a request. */
  isDispatched = false
  readonly #agent: Agent | EnvHttpProxyAgent
  #socket: Duplex | undefined

  constructor(proxies: ProxySettings | undefined, trust: SecureContext | undefined, connectMsMax: number) {
    super()
    const tls = trust === undefined ? {} : { secureContext: trust }
    const options = { connect: { ...tls, timeout: connectMsMax }, headersTimeout: connectMsMax }
    this.#agent =
      proxies === undefined
        ? new Agent(options)
        : new EnvHttpProxyAgent({
            ...options,
            httpProxy: proxies.http,
            httpsProxy: proxies.https,
            noProxy: proxies.noProxy,
            requestTls: tls,
            // The library would also use TLS towards a SOCKS proxy.
            ...(/^socks/.test(proxies.https) ? {} : { proxyTls: tls }),
          })
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.isDispatched = true
    // Observe three events before passing them on; the prototype keeps the rest of the handler unchanged.
    const watched: Dispatcher.DispatchHandler = Object.create(handler, {
      onError: {
        value: (error: Error) => {
          this.failure ??= describeFailure(error)
          handler.onError?.(error)
        },
      },
      onHeaders: {
        value: (...headers: Parameters<NonNullable<typeof handler.onHeaders>>) => {
          if (headers[0] >= 200)
            this.failure ??= `the host answered ${headers[0]} instead of opening a WebSocket; check --host`
          return handler.onHeaders?.(...headers) ?? true
        },
      },
      onUpgrade: {
        value: (...upgrade: Parameters<NonNullable<typeof handler.onUpgrade>>) => {
          this.#socket = upgrade[2]
          handler.onUpgrade?.(...upgrade)
        },
      },
    })
    return this.#agent.dispatch(options, watched)
  }

  destroySocket(): void {
    this.#socket?.destroy()
  }

  dispose(): void {
    this.#agent.destroy().catch(() => {})
  }
}

/** Returns the innermost cause, because the outer errors say only that fetching failed. */
function describeFailure(error: Error): string {
  let inner: unknown = error
  while (isNativeError(inner) && isNativeError(inner.cause)) inner = inner.cause
  // An AggregateError has one error per address; the first is enough.
  if (isNativeError(inner) && 'errors' in inner && Array.isArray(inner.errors)) inner = inner.errors[0]
  const code = isNativeError(inner) && 'code' in inner ? String(inner.code) : ''
  const hint = UNTRUSTED_CERTIFICATE.test(code) ? UNTRUSTED_HINT : ''
  return `${textOf(inner)}${hint}`
}

const textOf = (error: unknown): string =>
  (isNativeError(error) ? error.message : String(error)).slice(0, REASON_CHARS_MAX)
