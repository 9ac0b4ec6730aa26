/**
 * The way out of one run's sandbox: a proxy on a Unix socket that does CONNECT and nothing else.
 *
 * It decides by name, then by address, then connects to that address. `open` lets every public address through;
 * nothing lets this machine, its neighbours or its cloud's metadata through. It does not look into what passes: names
 * don't stop anybody from taking data out through a host that is allowed.
 *
 * Whoever connects may be hostile, so every wait has an end, every request a size, and connections a number.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'
import type { Result } from '../../../core/result.ts'
import { addressesOf, type MayReach, open, outInTheWorld, type Resolve, resolver } from './connect.ts'
import { type Journal, makeJournal } from './connection-log.ts'
import { readHead } from './proxy-request.ts'
import { listenOn, type Owner } from './listen.ts'
import { makePolicy, type Policy, type PolicyOrder, readTarget } from './policy.ts'
import { ESTABLISHED, refusalText, type Status, statusOf } from './replies.ts'
import { tunnel } from './tunnel.ts'

export interface EgressOrder extends PolicyOrder {
  readonly socketPath: string
  /** Who alone may connect; without it the folder that the socket is in has to be the wall. */
  readonly owner?: Owner
  readonly log: (line: string) => void
  readonly clock: Clock
  readonly resolve?: Resolve
  /** Asked for every address of a name. What is not out in the world is not reached unless this says otherwise. */
  readonly mayReach?: MayReach
}

export interface Egress {
  /** Cuts every connection and takes the socket away. */
  close(): Promise<void>
  figures(): EgressFigures
}

export interface EgressFigures {
  /** Now. */
  readonly connections: number
  readonly allowed: number
  readonly refused: number
  /** Allowed, and then not to be reached. */
  readonly failed: number
  /** Of connections that are over. */
  readonly bytesOut: number
  readonly bytesIn: number
}

export const CONNECTIONS_MAX = 256
/** How long a refused client may take to read why. */
const LINGER_MS_MAX = 1_000

/** Rejects when there can be no socket at that path. */
export async function openEgress(order: EgressOrder): Promise<Egress> {
  const service = new Service(order)
  const unlisten = await listenOn(order.socketPath, order.owner, (client) => service.take(client))
  let closing: Promise<void> | undefined
  return {
    close: () => {
      closing ??= unlisten(() => service.end())
      return closing
    },
    figures: () => service.figures(),
  }
}

class Service {
  readonly #clock: Clock
  readonly #policy: Policy
  readonly #journal: Journal
  readonly #resolve: Resolve
  readonly #mayReach: MayReach
  readonly #clients = new Set<Socket>()
  /** By the socket that leads out; settled when its bytes are counted and its line is written. */
  readonly #tunnels = new Map<Socket, Promise<void>>()
  readonly #sums = { allowed: 0, refused: 0, failed: 0, bytesOut: 0, bytesIn: 0 }

  constructor(order: EgressOrder) {
    this.#clock = order.clock
    this.#policy = makePolicy(order)
    this.#journal = makeJournal(order.log, order.clock)
    this.#resolve = order.resolve ?? resolver()
    this.#mayReach = order.mayReach ?? outInTheWorld
    for (const entry of this.#policy.useless) order.log(`egress: ${entry}`)
  }

  figures(): EgressFigures {
    return { connections: this.#clients.size, ...this.#sums }
  }

  take(client: Socket): void {
    // What breaks closes, and that is listened for; unheard, an error would end the worker.
    client.on('error', () => {})
    if (this.#clients.size >= CONNECTIONS_MAX) this.#turnAway(client)
    else this.#admit(client)
  }

  async end(): Promise<void> {
    const gone = [...this.#clients].map((client) => new Promise((resolve) => client.once('close', resolve)))
    for (const socket of [...this.#clients, ...this.#tunnels.keys()]) socket.destroy()
    await Promise.all([...gone, ...this.#tunnels.values()])
    this.#journal.end()
  }

  // ---- one connection --------------------------------------------------------------------------------------------

  #admit(client: Socket): void {
    this.#clients.add(client)
    client.once('close', () => this.#clients.delete(client))
    // Only a bug gets here, or a system that keeps its own addresses from us; neither may end the worker.
    this.#serve(client).catch((error: unknown) => {
      this.#refuse(client, '', '502 Bad Gateway', `the proxy could not decide: ${error}`)
    })
  }

  async #serve(client: Socket): Promise<void> {
    const head = await readHead(client, this.#clock)
    if (head.is === 'gone') return void client.destroy()
    if (head.is === 'bad') return this.#refuse(client, head.target, head.status, head.why)
    const way = await this.#wayTo(head.authority, abandonment(client))
    if (way.ok) this.#tunnels.set(way.value, this.#carry(client, way.value, head.authority))
    else this.#refuse(client, head.authority, statusOf(way.refusal.kind), way.refusal.message)
  }

  async #wayTo(authority: string, abandoned: AbortSignal): Promise<Result<Socket>> {
    const target = readTarget(authority)
    if (!target.ok) return target
    const allowed = this.#policy.mayAsk(target.value)
    if (!allowed.ok) return allowed
    const addresses = await addressesOf(target.value, this.#resolve, this.#mayReach)
    return addresses.ok ? open(addresses.value, target.value.port, this.#clock, abandoned) : addresses
  }

  async #carry(client: Socket, upstream: Socket, target: string): Promise<void> {
    this.#sums.allowed += 1
    client.write(ESTABLISHED)
    await tunnel(client, upstream, this.#clock)
    this.#tunnels.delete(upstream)
    const [bytesOut, bytesIn] = [upstream.bytesWritten, upstream.bytesRead]
    this.#sums.bytesOut += bytesOut
    this.#sums.bytesIn += bytesIn
    this.#journal.wrote(target, `allowed, ${bytesOut} bytes out, ${bytesIn} bytes in`)
  }

  // ---- saying no -------------------------------------------------------------------------------------------------

  #refuse(client: Socket, target: string, status: Status, why: string): void {
    // Nobody is there to be refused: it left, or the run is over.
    if (client.destroyed) return
    this.#count(target, status, why)
    client.end(refusalText(status, target, why))
    // What it still sends is thrown away: closing on unread bytes may cost it the answer.
    client.resume()
    const cancel = this.#clock.after(LINGER_MS_MAX, () => client.destroy())
    client.once('close', cancel).once('end', () => client.destroySoon())
  }

  /** Beyond the number of connections nothing is waited for. */
  #turnAway(client: Socket): void {
    const why = `there are ${CONNECTIONS_MAX} connections already; close some first`
    this.#count('', '503 Service Unavailable', why)
    client.end(refusalText('503 Service Unavailable', '', why))
    client.destroySoon()
  }

  #count(target: string, status: Status, why: string): void {
    const failed = status === '502 Bad Gateway'
    this.#sums[failed ? 'failed' : 'refused'] += 1
    this.#journal.wrote(target, `${failed ? 'failed' : 'refused'}: ${why}`)
  }
}

/** Raised when the client goes away while a way is looked for. */
function abandonment(client: Socket): AbortSignal {
  const controller = new AbortController()
  client.once('close', () => controller.abort())
  return controller.signal
}
