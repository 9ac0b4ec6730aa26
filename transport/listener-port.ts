/**
 * The port of a listener: what the transport needs of a library that serves HTTP and WebSockets.
 *
 * `native/` implements it with uWebSockets.js, whose methods have the same names and meanings, and `node/` with
 * node:http and ws. All rules about requests, replies and sockets are above the port and exist once. A listener calls
 * back from its own event loop, and its callbacks must not throw.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { no, type Result, yes } from '../core/result.ts'
import type { FindTlsFault, TlsFiles } from '../core/settings/listeners.ts'
import { messageOf } from '../protocol/message-of.ts'

/** A request; valid within the callback that receives it. */
export interface ListenerRequest {
  getCaseSensitiveMethod(): string
  /** The path before the `?`, still encoded. */
  getUrl(): string
  /** The text after the `?`, still encoded; undefined without a `?`. */
  getQuery(): string | undefined
  /** The value of a header; empty when the request has none. */
  getHeader(lowerCaseName: string): string
  /** Visits every header with its name in lower case, repeated headers each time. */
  forEach(visit: (name: string, value: string) => void): void
}

/**
 * Text of ASCII characters only. Encoding any other text is left to the caller: with newer versions of Node the native
 * listener sends a string whose characters are all below U+0100 as Latin-1.
 */
export type AsciiText = string & { readonly characters: 'ascii' }

/** The response to one request. Calls are valid until it is ended or aborted. */
export interface ListenerResponse {
  /** Code and reason phrase, such as `404 Not Found`; call it before any header. 200 OK without. */
  writeStatus(status: string): unknown
  /** @param value may continue with whole header lines, each after a CR LF; the caller checks its characters */
  writeHeader(name: string, value: string): unknown
  /** Sends a part of a body without a known length. Returns false when the socket does not accept more now. */
  write(bytes: Uint8Array): boolean
  /** Sends the rest of the body and ends the response. @param closes closes the connection after it */
  end(body?: Uint8Array | AsciiText, closes?: boolean): unknown
  endWithoutBody(): unknown
  /**
   * Sends a part of a body of `size` bytes. Returns whether the part was accepted whole, and whether the response has
   * ended. The part that was not accepted is sent again from the offset that `onWritable` reports.
   */
  tryEnd(bytes: Uint8Array, size: number): [isTaken: boolean, isEnded: boolean]
  /** The number of bytes of the body that were accepted. */
  getWriteOffset(): number
  /** Called when the socket accepts more; the result says whether everything was accepted. */
  onWritable(resume: (offset: number) => boolean): unknown
  /** Called when the connection ends before the response. */
  onAborted(run: () => void): unknown
  /** Receives the body; a piece is valid only within the call. */
  onData(receive: (piece: ArrayBuffer, isLast: boolean) => void): unknown
  /** Joins the writes of `run` into few packets. */
  cork(run: () => void): unknown
  /** Closes the connection at once. */
  close(): unknown
  /** The address of the other side. */
  getRemoteAddressAsText(): ArrayBuffer
  /** Accepts an upgrade. @param context the one that the upgrade came with */
  upgrade<T>(data: T, key: string, protocol: string, extensions: string, context: UpgradeContext): unknown
}

/** A value of the listener, which the upgrade hands back to it. */
export type UpgradeContext = unknown

/**
 * The result of `ServerSocket.send`: the message waits behind others, was sent, or was dropped for the backlog limit.
 */
export type SendResult = 0 | 1 | 2
export const DROPPED: SendResult = 2

/** An open WebSocket. The bytes of its messages are text. */
export interface ServerSocket<T> {
  send(message: Uint8Array): number
  getUserData(): T
  /** The bytes that wait to be sent. */
  getBufferedAmount(): number
  getRemoteAddressAsText(): ArrayBuffer
  subscribe(topic: string): unknown
  unsubscribe(topic: string): unknown
  getTopics(): string[]
  /** Joins the messages of `run` into few packets. */
  cork(run: () => void): unknown
  /** Sends a close frame behind the backlog and closes; `onClose` is called at once. */
  end(code: number, reason: Uint8Array): unknown
  /** Closes without a close frame; `onClose` is called at once. */
  close(): unknown
}

export interface SocketBehavior<T> {
  /** A larger message closes the socket. */
  readonly maxPayloadLength: number
  /** A socket with a larger backlog drops messages. */
  readonly maxBackpressure: number
  /** Seconds. A socket that is silent for so long, pings unanswered, is closed. */
  readonly idleTimeout: number
  readonly sendPingsAutomatically: true
  readonly upgrade: (response: ListenerResponse, request: ListenerRequest, context: UpgradeContext) => void
  readonly open: (socket: ServerSocket<T>) => void
  readonly message: (socket: ServerSocket<T>, bytes: ArrayBuffer, isBinary: boolean) => void
  /** A ping arrived; the listener answers it. */
  readonly ping?: (socket: ServerSocket<T>) => void
  /** A published message was dropped for the backlog limit. */
  readonly dropped?: (socket: ServerSocket<T>) => void
  /** The backlog has shrunk. */
  readonly drain: (socket: ServerSocket<T>) => void
  /** The socket is closed and must not be used any more. */
  readonly close: (socket: ServerSocket<T>) => void
}

/** An app serves the requests and sockets of a single port. */
export interface ListenerApp {
  /** Receives every request that is not an upgrade to a path of `ws`. */
  any(handle: (response: ListenerResponse, request: ListenerRequest) => void): void
  /** @param path may have parameters, such as `/ws/:id` */
  ws<T>(path: string, behavior: SocketBehavior<T>): void
  /** Sends a text message to the subscribers of a topic. */
  publish(topic: string, message: Uint8Array): void
  /** Binds exclusively; undefined when the address is taken or does not exist. Port 0 picks a free port. */
  listen(host: string, port: number): Promise<OpenPort | undefined>
  /** Closes the port and all connections at once. */
  close(): void
}

export interface OpenPort {
  readonly port: number
  /** Accepts no new connections; open ones stay. */
  stop(): void
}

export interface HttpListener {
  readonly name: 'native' | 'node'
  /** @param tls files that hold a certificate and its key */
  createApp(tls?: TlsFiles): ListenerApp
}

// ---- opening a port ------------------------------------------------------------------------------------------------

export interface Address {
  readonly host: string
  readonly port: number
}

/** Creates an app without routes. With TLS it checks first that the files are a certificate and its key. */
export function createApp(listener: HttpListener, tls?: TlsFiles): Result<ListenerApp> {
  const fault = tls === undefined ? undefined : findTlsFault(tls)
  return fault === undefined ? yes(listener.createApp(tls)) : no('invalid', `fleet.tls: ${fault}`)
}

/**
 * Binds exactly this address, exclusively. Port 0 picks a free port.
 *
 * @param portSettings names what sets the port, for the message about a port that is taken
 */
export async function listen(
  app: ListenerApp,
  { host, port }: Address,
  portSettings: string,
): Promise<Result<OpenPort>> {
  const open = await app.listen(host.replace(/^\[(.*)\]$/, '$1'), port)
  if (open !== undefined) return yes(open)
  const why = 'another program listens there, or this machine has no such address'
  return no(
    'conflict',
    `cannot listen on ${host}:${port}: ${why}; stop it, or choose another port with ${portSettings}`,
  )
}

export const findTlsFault: FindTlsFault = ({ certFile, keyFile }) => {
  try {
    createSecureContext({ cert: readPlainFile(certFile), key: readPlainFile(keyFile) })
    return undefined
  } catch (error) {
    const why = messageOf(error)
    return `${certFile} and ${keyFile} are not a certificate and its key: ${why}; name two PEM files that the host can read`
  }
}

/** A pipe or a device could hold up the whole host, because the call waits for its end. */
function readPlainFile(path: string): Buffer {
  if (!statSync(path).isFile()) throw new Error(`${path} is not a plain file`)
  return readFileSync(path)
}

/** SHA-256 of the certificate; undefined when the file holds none, which opening the listener reports. */
export function certificateFingerprint({ certFile }: TlsFiles): string | undefined {
  try {
    return new X509Certificate(readFileSync(certFile)).fingerprint256
  } catch {
    return undefined
  }
}
