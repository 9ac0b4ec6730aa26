/**
 * `DialNetwork` is the undici dispatcher under a worker's WebSocket: a direct connection or a proxy, with the configured
 * certificate authorities.
 *
 * The dispatcher records why a connection failed, which a WebSocket does not report. `destroySocket` ends a connection
 * that a silent peer would otherwise keep open for minutes.
 */
import { createHash, type X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContext, type TLSSocket } from 'node:tls'
import { isNativeError } from 'node:util/types'
import { Agent, buildConnector, Dispatcher, EnvHttpProxyAgent, Pool } from 'undici'
import { formatFingerprint } from '../core/fleet/token.ts'
import { no, type Result, yes } from '../core/result.ts'
import { WORKER_FRAME_BYTES_MAX } from '../protocol/limits.ts'
import type { ProxySettings } from '../providers/http/http-types.ts'

export interface DialTrust {
  /** The trusted authorities; absent: Node's own list. */
  readonly authorities?: SecureContext | undefined
  /** Replaces the authorities and the host's name. */
  readonly pin?: DialPin | undefined
  readonly provePeer: ProvePeer
  /** Read before each connection: a Unix socket in place of the port. */
  readonly socketPath?: (() => string | undefined) | undefined
}

/** How a worker and its supervisor reach their host. */
export interface DialAddress {
  /** The address of the worker channel, read before each connection. */
  readonly url: () => string
  /** Certificates of trusted authorities in PEM; absent: Node's own list. */
  readonly authorities?: readonly string[]
  /** Replaces the authorities. */
  readonly pin?: DialPin
  readonly provePeer: ProvePeer
  /** A Unix socket in place of the port. */
  readonly socketPath?: () => string | undefined
  /** Absent: connect directly. */
  readonly proxies?: ProxySettings
}

/** Parses the authorities once, because hundreds of certificates take longer than the rest of dialling. */
export const trustOf = ({ authorities, pin, provePeer, socketPath }: DialAddress): DialTrust => ({
  pin,
  provePeer,
  socketPath,
  authorities:
    authorities === undefined
      ? undefined
      : createSecureContext({ ca: [...authorities], minVersion: 'TLSv1.2' }),
})

/**
 * Rejects when the program at the other end of a connection within this machine is not the host's user's. Called before
 * the first byte of a line without TLS; with TLS the certificate is the proof.
 */
export type ProvePeer = (socket: Socket) => Promise<void>

export class DialNetwork extends Dispatcher {
  /** Read by the WebSocket: a larger message closes the connection. */
  readonly webSocketOptions = { maxPayloadSize: WORKER_FRAME_BYTES_MAX }
  failure: string | undefined
  /** False if the WebSocket refused the port before it dispatched a request. */
  isDispatched = false
  readonly #agent: Agent | EnvHttpProxyAgent
  #socket: Duplex | undefined
  readonly #pin: DialPin | undefined
  #isPinned = false

  constructor(
    proxies: ProxySettings | undefined,
    { authorities, pin, provePeer, socketPath }: DialTrust,
    connectMsMax: number,
  ) {
    super()
    this.#pin = pin
    // Written out, because a variable of the environment would otherwise turn the check off.
    const checked = { rejectUnauthorized: true }
    const trust = authorities === undefined ? checked : { ...checked, secureContext: authorities }
    // The pin is checked in place of the authorities, before anything is sent.
    const tls = pin === undefined ? trust : { rejectUnauthorized: false }
    const options = {
      connect: { ...tls, timeout: connectMsMax },
      headersTimeout: connectMsMax,
      factory: this.#pools(pin, provePeer, socketPath),
    }
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
            ...(/^socks/.test(proxies.https) ? {} : { proxyTls: trust }),
          })
  }

  #pools(
    pin: DialPin | undefined,
    provePeer: ProvePeer,
    socketPath: DialTrust['socketPath'],
  ): NonNullable<Agent.Options['factory']> {
    return (origin, options: Pool.Options) => {
      const { connect } = options
      // A function connects through a proxy, whose own program is not the host.
      const connector =
        typeof connect === 'function' ? connect : provenConnector(provePeer, connectorAt(connect, socketPath))
      if (pin === undefined) return new Pool(origin, { ...options, connect: connector })
      const onPinned = () => {
        this.#isPinned = true
      }
      return new Pool(origin, { ...options, connect: pinnedConnector(pin, connector, onPinned) })
    }
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.isDispatched = true
    // Observe four events before passing them on; the prototype keeps the rest of the handler unchanged.
    const watched: Dispatcher.DispatchHandler = Object.create(handler, {
      onConnect: {
        value: (...connected: Parameters<NonNullable<typeof handler.onConnect>>) => {
          // A path of the library around the pin, such as a SOCKS proxy, sends nothing.
          if (this.#pin !== undefined && !this.#isPinned)
            connected[0](new Error('--fingerprint cannot be used through this proxy; use --ca-file'))
          else handler.onConnect?.(...connected)
        },
      },
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

/** While no host runs, nothing names its socket: then the connection fails, and the worker dials again later. */
function connectorAt(
  connect: buildConnector.BuildOptions | undefined,
  socketPath: DialTrust['socketPath'],
): buildConnector.connector {
  return (options, callback) => {
    let path: string | undefined
    try {
      path = socketPath?.()
    } catch (error) {
      callback(error instanceof Error ? error : new Error(String(error)), null)
      return
    }
    buildConnector({ ...connect, ...(path === undefined ? {} : { socketPath: path }) })(options, callback)
  }
}

function provenConnector(provePeer: ProvePeer, connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error !== null || options.protocol !== 'http:') {
        if (error === null) callback(null, socket)
        else callback(error, null)
        return
      }
      // An error without a listener would end the process.
      const ignore = () => {}
      socket.on('error', ignore)
      provePeer(socket).then(
        () => {
          socket.off('error', ignore)
          callback(null, socket)
        },
        (reason: Error) => {
          socket.destroy()
          callback(reason, null)
        },
      )
    })
}

// ---- failures ------------------------------------------------------------------------------------------------------

const REASON_CHARS_MAX = 300
const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
const UNTRUSTED_HINT =
  '; name the certificate of its authority with --ca-file, or pin it with --fingerprint, as printed by switchyard workers pair'

/** The innermost cause, because the outer errors say only that fetching failed. */
export function describeFailure(error: unknown): string {
  let inner: unknown = error
  while (isNativeError(inner) && isNativeError(inner.cause)) inner = inner.cause
  // An AggregateError has one error per address; the first is enough.
  if (isNativeError(inner) && 'errors' in inner && Array.isArray(inner.errors)) inner = inner.errors[0]
  const code = isNativeError(inner) && 'code' in inner ? String(inner.code) : ''
  // Undici's parser says what it expected, which tells a person nothing.
  if (isNativeError(inner) && inner.name === 'HTTPParserError')
    return 'what answers there does not speak HTTP; check --host'
  return `${textOf(inner)}${UNTRUSTED_CERTIFICATE.test(code) ? UNTRUSTED_HINT : ''}`
}

const textOf = (error: unknown): string =>
  (isNativeError(error) ? error.message : String(error)).slice(0, REASON_CHARS_MAX)

// ---- the pin -------------------------------------------------------------------------------------------------------

/**
 * `DialPin` recognises the host by the SHA-256 fingerprint of its certificate or of the certificate's public key.
 *
 * A pinned worker needs no authority: it accepts this host alone, whatever its name is and whoever signed the
 * certificate. The worker keeps the key that it has found behind the fingerprint, so a renewed certificate with the
 * same key is accepted too.
 */
export interface DialPin {
  /** 64 hexadecimal digits in lower case. */
  readonly fingerprint: string
  /** The fingerprint of the key that an earlier connection has found behind `fingerprint`. */
  readonly key?: string
  /** Called with the fingerprint of the key when a connection was accepted. */
  readonly onAccepted?: (key: string) => void
}

/** Returns the fingerprint of the key when the certificate is the pinned host's. */
function checkPin({ fingerprint, key: knownKey }: DialPin, certificate: X509Certificate): Result<string> {
  const own = sha256(certificate.raw)
  const key = sha256(certificate.publicKey.export({ type: 'spki', format: 'der' }))
  if ([own, key].includes(fingerprint) || key === knownKey) return yes(key)
  return no(
    'forbidden',
    `the certificate of the host is not the pinned one, but ${formatFingerprint(own)}; if the host has a new one, start with the new --fingerprint, as printed there by switchyard workers pair`,
  )
}

/** Connects by TLS to the pinned host only. The check comes before the first byte of a request. */
function pinnedConnector(
  pin: DialPin,
  connect: buildConnector.connector,
  onPinned: () => void,
): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null)
      const certificate = (socket as Partial<TLSSocket>).getPeerX509Certificate?.()
      const checked =
        certificate === undefined
          ? no('forbidden', '--fingerprint needs an encrypted connection to the host')
          : checkPin(pin, certificate)
      if (!checked.ok) {
        socket.destroy()
        return callback(new Error(checked.refusal.message), null)
      }
      onPinned()
      pin.onAccepted?.(checked.value)
      return callback(null, socket)
    })
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
