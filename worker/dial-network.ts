/**
 * What a worker's WebSocket connects through: directly or by a proxy, trusting whom it was told to trust.
 *
 * It is watched on the way, because a WebSocket itself doesn't tell why there was no connection, and the wire is kept
 * at hand, because a peer that never says goodbye would hold it for minutes.
 */
import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'
import { isNativeError } from 'node:util/types'
import { Agent, Dispatcher, EnvHttpProxyAgent } from 'undici'
import { WORKER_FRAME_BYTES_MAX } from '../protocol/limits.ts'
import type { ProxySettings } from '../providers/http/http.ts'

const REASON_CHARS_MAX = 300
const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/

export class DialNetwork extends Dispatcher {
  /** Read by the WebSocket: what is longer ends the line. */
  readonly webSocketOptions = { maxPayloadSize: WORKER_FRAME_BYTES_MAX }
  failure: string | undefined
  /** Some ports are refused before anything is sent. */
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
            // The library would speak TLS to a SOCKS proxy, too.
            ...(/^socks/.test(proxies.https) ? {} : { proxyTls: tls }),
          })
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.isDispatched = true
    // Before they are passed on, and with everything else about the handler left as it is.
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
            this.failure ??= `the host answered ${headers[0]} instead of opening a line; is --host right?`
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

/** The innermost reason: the outer ones say only that fetching failed. */
function describeFailure(error: Error): string {
  let inner: unknown = error
  while (isNativeError(inner) && isNativeError(inner.cause)) inner = inner.cause
  // Several addresses were tried; one of them speaks for all.
  if (isNativeError(inner) && 'errors' in inner && Array.isArray(inner.errors)) inner = inner.errors[0]
  const code = isNativeError(inner) && 'code' in inner ? String(inner.code) : ''
  const hint = UNTRUSTED_CERTIFICATE.test(code)
    ? '; name the certificate of its authority with --ca-file'
    : ''
  return `${textOf(inner)}${hint}`
}

const textOf = (error: unknown): string =>
  (isNativeError(error) ? error.message : String(error)).slice(0, REASON_CHARS_MAX)
