/**
 * The egress proxy of one sandbox: an HTTP proxy on a Unix socket that supports only CONNECT.
 *
 * The proxy checks the name, then the address, and connects to that address. `open` allows every public address;
 * no setting allows this machine, its local network or its cloud's metadata service. Where hosts are listed, a tunnel's
 * TLS hello names its host; the rest is not inspected: an allowed host can still be used to send data out. Clients may be hostile, so waits, request sizes and the
 * number of connections are limited.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import {
  isRemotePublicAddress,
  type MayReachAddress,
  makeResolver,
  openConnection,
  type ResolveHost,
  resolveTarget,
} from './connect.ts'
import { type ConnectionLog, makeConnectionLog } from './connection-log.ts'
import { forwardAfterHello } from './forward-after-hello.ts'
import { listenOn, type SocketOwner } from './listen.ts'
import {
  type ConnectTarget,
  makeNetworkPolicy,
  type NetworkPolicy,
  type NetworkRules,
  parseTarget,
} from './policy.ts'
import { readProxyRequest } from './proxy-request.ts'
import { buildRefusal, ESTABLISHED, type ProxyStatus, statusForRefusal } from './replies.ts'
import { runTunnel } from './tunnel.ts'

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
