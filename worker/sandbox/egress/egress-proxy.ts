/**
 * The egress proxy of one sandbox: an HTTP proxy on a Unix socket that supports only CONNECT.
 *
 * The proxy checks the name, then the address, and connects to that address. `open` allows every public address; no
 * setting allows this machine, its local network or its cloud's metadata service. Where hosts are listed, a tunnel's
 * TLS hello names its host; the rest is not inspected: an allowed host can still be used to send data out. Clients may
 * be hostile, so waits, request sizes and the number of connections are limited.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports/clock.ts'
import { type RefusalKind, type Result, yes } from '../../../core/result.ts'
import { MODEL_API_IDLE_MS_MAX } from '../../../protocol/limits.ts'
import {
  isRemotePublicAddress,
  type MayReachAddress,
  makeResolver,
  openConnection,
  type ResolveHost,
  resolveTarget,
} from './connect.ts'
import { type ConnectionLog, makeConnectionLog, printableTarget } from './connection-log.ts'
import { forwardAfterHello } from './forward-after-hello.ts'
import { listenOn, type SocketOwner } from './listen.ts'
import {
  type ConnectTarget,
  makeNetworkPolicy,
  type NetworkPolicy,
  type NetworkRules,
  parseTarget,
} from './policy.ts'

export interface EgressProxyOptions extends NetworkRules {
  readonly socketPath: string
  /** The only user that may connect; without it, the permissions of the socket's folder must restrict access. */
  readonly owner?: SocketOwner
  readonly log: (line: string) => void
  readonly clock: Clock
  readonly resolve?: ResolveHost
  /** Checks every address of a name. By default only remote public addresses are allowed. */
  readonly mayReach?: MayReachAddress
}

export interface EgressProxy {
  /** Closes every connection and removes the socket. */
  close(): Promise<void>
  totals(): EgressTotals
  /** Allows further hosts, for connections from now on. */
  allow(entries: readonly string[]): void
}

export interface EgressTotals {
  /** Currently open connections. */
  readonly connections: number
  readonly allowed: number
  readonly refused: number
  /** Targets that were allowed but could not be reached. */
  readonly failed: number
  /** Byte counts of closed connections. */
  readonly bytesOut: number
  readonly bytesIn: number
}

export const CONNECTIONS_MAX = 256
/** How long a refused client may take to read the reason. */
const LINGER_MS_MAX = 1_000

/** Rejects when the socket cannot be created. */
export async function openEgressProxy(options: EgressProxyOptions): Promise<EgressProxy> {
  const server = new EgressProxyServer(options)
  const stopListening = await listenOn(options.socketPath, options.owner, (client) => server.accept(client))
  let closing: Promise<void> | undefined
  return {
    close: () => {
      closing ??= stopListening(() => server.closeAll())
      return closing
    },
    totals: () => server.totals(),
    allow: (entries) => server.allow(entries),
  }
}

class EgressProxyServer {
  readonly #clock: Clock
  readonly #policy: NetworkPolicy
  readonly #log: ConnectionLog
  readonly #resolve: ResolveHost
  readonly #mayReach: MayReachAddress
  readonly #clients = new Set<Socket>()
  /** Keyed by the upstream socket. Each promise resolves when the bytes are counted and the line is logged. */
  readonly #tunnels = new Map<Socket, Promise<void>>()
  readonly #totals = { allowed: 0, refused: 0, failed: 0, bytesOut: 0, bytesIn: 0 }

  constructor(options: EgressProxyOptions) {
    this.#clock = options.clock
    this.#policy = makeNetworkPolicy(options, (line) => options.log(`egress: ${line}`))
    this.#log = makeConnectionLog(options.log, options.clock)
    this.#resolve = options.resolve ?? makeResolver()
    this.#mayReach = options.mayReach ?? isRemotePublicAddress
    for (const entry of this.#policy.uselessEntries) options.log(`egress: ${entry}`)
  }

  totals(): EgressTotals {
    return { connections: this.#clients.size, ...this.#totals }
  }

  allow(entries: readonly string[]): void {
    this.#policy.allow(entries)
  }

  accept(client: Socket): void {
    // `close` follows every error and is handled; an unhandled error event would end the worker.
    client.on('error', () => {})
    if (this.#clients.size >= CONNECTIONS_MAX) this.#rejectOverLimit(client)
    else this.#admit(client)
  }

  async closeAll(): Promise<void> {
    const closed = [...this.#clients].map((client) => new Promise((resolve) => client.once('close', resolve)))
    for (const socket of [...this.#clients, ...this.#tunnels.keys()]) socket.destroy()
    await Promise.all([...closed, ...this.#tunnels.values()])
    this.#log.reportOmitted()
  }

  // ---- one connection --------------------------------------------------------------------------------------------

  #admit(client: Socket): void {
    this.#clients.add(client)
    client.once('close', () => this.#clients.delete(client))
    // Reached only by a bug, or when the system hides its own addresses; neither may end the worker.
    this.#serve(client).catch((error: unknown) => {
      this.#refuse(client, '', '502 Bad Gateway', `the proxy failed to check the target: ${error}`)
    })
  }

  async #serve(client: Socket): Promise<void> {
    const request = await readProxyRequest(client, this.#clock)
    if (request.is === 'gone') return void client.destroy()
    if (request.is === 'bad') return this.#refuse(client, request.target, request.status, request.why)
    const connection = await this.#connectUpstream(request.authority, abortOnClose(client))
    if (connection.ok) this.#tunnels.set(connection.value.upstream, this.#runTunnel(client, connection.value))
    else
      this.#refuse(
        client,
        request.authority,
        statusForRefusal(connection.refusal.kind),
        connection.refusal.message,
      )
  }

  async #connectUpstream(authority: string, abandoned: AbortSignal): Promise<Result<OpenedTarget>> {
    const target = parseTarget(authority)
    if (!target.ok) return target
    const allowed = this.#policy.checkTarget(target.value)
    if (!allowed.ok) return allowed
    const addresses = await resolveTarget(target.value, this.#resolve, this.#mayReach)
    if (!addresses.ok) return addresses
    const opened = await openConnection(addresses.value, target.value.port, this.#clock, abandoned)
    return opened.ok ? yes({ upstream: opened.value, authority, target: target.value }) : opened
  }

  async #runTunnel(client: Socket, { upstream, authority, target }: OpenedTarget): Promise<void> {
    let refusal: string | undefined
    const checked = forwardAfterHello(target, (why) => {
      refusal = why
    })
    client.write(ESTABLISHED)
    await runTunnel(client, upstream, this.#clock, this.#policy.isOpen ? undefined : checked)
    this.#tunnels.delete(upstream)
    if (refusal !== undefined) return this.#recordRefusal(authority, '403 Forbidden', refusal)
    this.#totals.allowed += 1
    const [bytesOut, bytesIn] = [upstream.bytesWritten, upstream.bytesRead]
    this.#totals.bytesOut += bytesOut
    this.#totals.bytesIn += bytesIn
    this.#log.record(authority, `allowed, ${bytesOut} bytes out, ${bytesIn} bytes in`)
  }

  // ---- refusals --------------------------------------------------------------------------------------------------

  #refuse(client: Socket, target: string, status: ProxyStatus, why: string): void {
    // The client disconnected, or the run is over.
    if (client.destroyed) return
    this.#recordRefusal(target, status, why)
    client.end(buildRefusal(status, target, why))
    // Discard further input: closing a socket with unread bytes may drop the reply.
    client.resume()
    const cancel = this.#clock.after(LINGER_MS_MAX, () => client.destroy())
    client.once('close', cancel).once('end', () => client.destroySoon())
  }

  /** Above the limit, the proxy does not wait for the client to read the reply. */
  #rejectOverLimit(client: Socket): void {
    const why = `there are ${CONNECTIONS_MAX} connections already; close some first`
    this.#recordRefusal('', '503 Service Unavailable', why)
    client.end(buildRefusal('503 Service Unavailable', '', why))
    client.destroySoon()
  }

  #recordRefusal(target: string, status: ProxyStatus, why: string): void {
    const failed = status === '502 Bad Gateway'
    this.#totals[failed ? 'failed' : 'refused'] += 1
    this.#log.record(target, `${failed ? 'failed' : 'refused'}: ${why}`)
  }
}

interface OpenedTarget {
  readonly upstream: Socket
  /** The text of the request. */
  readonly authority: string
  readonly target: ConnectTarget
}

/** Aborts when the client disconnects while the proxy still connects. */
function abortOnClose(client: Socket): AbortSignal {
  const controller = new AbortController()
  client.once('close', () => controller.abort())
  return controller.signal
}

// ---- the tunnel ----------------------------------------------------------------------------------------------------

/**
 * As long as the model proxy waits: a model may think for minutes before its first byte, and is paid for each request.
 */
export const IDLE_MS_MAX = MODEL_API_IDLE_MS_MAX

/**
 * Joins two sockets: forwards bytes both ways with backpressure, and closes each half separately.
 *
 * An idle tunnel is closed. After a clean close of one side, its remaining bytes are still delivered as long as the
 * other side keeps reading. When one side fails, both are destroyed at once.
 *
 * Resolves when both are closed. Both need an `error` listener and must be created with `allowHalfOpen`. `forward`
 * begins to forward the bytes of the first.
 */
export async function runTunnel(
  first: Socket,
  second: Socket,
  clock: Clock,
  forward: (from: Socket, to: Socket) => void = (from, to) => void from.pipe(to),
): Promise<void> {
  const stopWatching = watchIdle([first, second], clock)
  const ends = [awaitClose(first, second), awaitClose(second, first)]
  forward(first, second)
  second.pipe(first)
  await Promise.all(ends)
  stopWatching()
}

/** Resolves when `socket` has closed, and then closes `partner`. */
function awaitClose(socket: Socket, partner: Socket): Promise<void> {
  return new Promise((resolve) => {
    const onClosed = (broken: boolean) => {
      if (broken) partner.destroy()
      else partner.destroySoon()
      resolve()
    }
    if (socket.destroyed) onClosed(true)
    else socket.once('close', onClosed)
  })
}

function watchIdle(sockets: readonly Socket[], clock: Clock): () => void {
  let movedAt = clock.monotonic()
  const onMovement = () => {
    movedAt = clock.monotonic()
  }
  const check = () => {
    const leftMs = movedAt + IDLE_MS_MAX - clock.monotonic()
    if (leftMs > 0) cancel = clock.after(leftMs, check)
    else for (const socket of sockets) socket.destroy()
  }
  let cancel = clock.after(IDLE_MS_MAX, check)
  for (const socket of sockets) socket.on('data', onMovement)
  return () => cancel()
}

// ---- the request ---------------------------------------------------------------------------------------------------

type ProxyRequest =
  | { readonly is: 'connect'; readonly authority: string }
  | { readonly is: 'bad'; readonly status: ProxyStatus; readonly why: string; readonly target: string }
  /** The client disconnected, or closed its half, before the request was complete. */
  | { readonly is: 'gone' }

export const HEAD_BYTES_MAX = 8 * 1024
export const HEAD_MS_MAX = 10_000

const HEAD_END = '\r\n\r\n'
const REQUEST_LINE = /^([A-Z]{1,20}) (\S+) HTTP\/1\.[01]$/

/**
 * Reads the head of a proxy request from a socket that any process in the sandbox may write to.
 *
 * Only `CONNECT` is accepted. The head must be complete within HEAD_MS_MAX and HEAD_BYTES_MAX. Bytes after the head
 * stay in the socket for the tunnel. Header fields are ignored.
 */
function readProxyRequest(socket: Socket, clock: Clock): Promise<ProxyRequest> {
  return new Promise((resolve) => {
    let read = Buffer.alloc(0)
    const settle = (request: ProxyRequest) => {
      cancel()
      socket.pause()
      socket.off('data', onData).off('end', onClose).off('close', onClose)
      resolve(request)
    }
    const onClose = () => settle({ is: 'gone' })
    const onData = (bytes: Buffer) => {
      read = Buffer.concat([read, bytes])
      const end = read.indexOf(HEAD_END)
      if (end < 0 ? read.length > HEAD_BYTES_MAX : end > HEAD_BYTES_MAX) return settle(tooLarge)
      if (end < 0) return
      settle(parseRequestHead(read.toString('latin1', 0, end)))
      const rest = read.subarray(end + HEAD_END.length)
      if (rest.length > 0) socket.unshift(rest)
    }
    const cancel = clock.after(HEAD_MS_MAX, () => settle(tooSlow))
    socket.on('data', onData).on('end', onClose).on('close', onClose)
  })
}

const tooLarge: ProxyRequest = badRequest(
  '431 Request Header Fields Too Large',
  `the head of a request may have at most ${HEAD_BYTES_MAX} bytes`,
)
const tooSlow: ProxyRequest = badRequest(
  '408 Request Timeout',
  `a request must be complete within ${HEAD_MS_MAX / 1000} s`,
)

function parseRequestHead(head: string): ProxyRequest {
  const [line = ''] = head.split('\r\n', 1)
  const [, method, target = ''] = REQUEST_LINE.exec(line) ?? []
  if (method === undefined) return badRequest('400 Bad Request', 'this is not a request to a proxy')
  if (method === 'CONNECT') return { is: 'connect', authority: target }
  const why =
    'this proxy supports only CONNECT; use an https:// address, or make the program tunnel http:// too'
  return badRequest('405 Method Not Allowed', why, target)
}

function badRequest(status: ProxyStatus, why: string, target = ''): ProxyRequest {
  return { is: 'bad', status, why, target }
}

// ---- replies -------------------------------------------------------------------------------------------------------

type ProxyStatus =
  | '400 Bad Request'
  | '403 Forbidden'
  | '405 Method Not Allowed'
  | '408 Request Timeout'
  | '431 Request Header Fields Too Large'
  | '502 Bad Gateway'
  | '503 Service Unavailable'

/** The head of the reply to a successful CONNECT. */
export const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

/** Malformed target, forbidden target, or a target that could not be reached. */
function statusForRefusal(kind: RefusalKind): ProxyStatus {
  if (kind === 'invalid') return '400 Bad Request'
  return kind === 'forbidden' ? '403 Forbidden' : '502 Bad Gateway'
}

/** A reply with one sentence for a person. */
export function buildRefusal(status: ProxyStatus, target: string, why: string): string {
  const body = `switchyard: cannot connect to ${printableTarget(target)}: ${why}\n`
  const head = [
    `HTTP/1.1 ${status}`,
    'content-type: text/plain',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
