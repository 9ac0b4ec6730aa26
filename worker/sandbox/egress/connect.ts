/**
 * Resolves a host name and connects to exactly the address that was checked.
 *
 * The name is resolved once, and the connection is made to the address, never to the name: a second lookup could return
 * another address. If any address of the name is forbidden, all are: such a name is misconfigured or an attack.
 */
import { NODATA, NOTFOUND, Resolver } from 'node:dns/promises'
import { connect, isIPv4, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { isPublicAndRemote } from '../../../providers/http/public-addresses.ts'
import type { ConnectTarget } from './policy.ts'

/** Returns the addresses of a name, [] when it has none. Rejects when no name server answered. */
export type ResolveHost = (host: string) => Promise<readonly string[]>
export type MayReachAddress = (address: string, port: number) => boolean

const LOOKUP_MS_MAX = 3_000
const LOOKUP_TRIES = 2
const CONNECT_MS_MAX = 7_000
const ADDRESSES_TRIED_MAX = 3

/**
 * Queries the machine's name servers directly and ignores /etc/hosts. The system's lookup function would block the
 * small thread pool that serves all file access of the worker, and a sandbox that resolves dead names could exhaust it.
 */
export function makeResolver(
  dnsResolver = new Resolver({ timeout: LOOKUP_MS_MAX, tries: LOOKUP_TRIES }),
): ResolveHost {
  return async (host) => {
    const answers = await Promise.allSettled([dnsResolver.resolve4(host), dnsResolver.resolve6(host)])
    const unanswered = answers.find((answer) => answer.status === 'rejected' && !isNoRecord(answer.reason))
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length === 0 && unanswered !== undefined) throw new Error('no name server answered')
    return found
  }
}

export function isRemotePublicAddress(address: string): boolean {
  const ownAddresses = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  return isPublicAndRemote(
    address,
    ownAddresses.map(({ address: ownAddress }) => ownAddress),
  )
}

export async function resolveTarget(
  { host, port, isLiteral }: ConnectTarget,
  resolve: ResolveHost,
  mayReach: MayReachAddress,
): Promise<Result<readonly string[]>> {
  const addresses = isLiteral ? [host] : await resolve(host).catch(() => undefined)
  if (addresses === undefined) return no('unavailable', 'the name could not be resolved; try again later')
  if (addresses.length === 0) return no('unavailable', 'no such host')
  if (addresses.every((address) => mayReach(address, port))) return yes(addresses)
  return no('forbidden', 'the host is not at a public address; no setting lets sandboxes reach others')
}

/** Tries one address after another until one accepts the connection or `abandoned` aborts. */
export async function openConnection(
  addresses: readonly string[],
  port: number,
  clock: Clock,
  abandoned: AbortSignal,
): Promise<Result<Socket>> {
  // IPv4 first: a missing protocol fails at once, but a broken one, usually IPv6, would cost the timeout.
  const ordered = [...addresses].sort((a, b) => Number(isIPv4(b)) - Number(isIPv4(a)))
  let last: Result<Socket> = no('unavailable', 'the host has no address')
  for (const address of ordered.slice(0, ADDRESSES_TRIED_MAX)) {
    last = await connectTo(address, port, clock, abandoned)
    if (last.ok || abandoned.aborted) return last
  }
  return last
}

function connectTo(
  host: string,
  port: number,
  clock: Clock,
  abandoned: AbortSignal,
): Promise<Result<Socket>> {
  if (abandoned.aborted) return Promise.resolve(no('gone', 'the client has disconnected'))
  return new Promise((resolve) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true })
    const settle = (answer: Result<Socket>) => {
      cancel()
      abandoned.removeEventListener('abort', giveUp)
      socket.off('connect', succeed).off('close', giveUp)
      if (!answer.ok) socket.destroy()
      resolve(answer)
    }
    const succeed = () => settle(yes(socket))
    const giveUp = () => settle(no('unavailable', 'the host refused the connection'))
    const cancel = clock.after(CONNECT_MS_MAX, () => settle(no('unavailable', 'the host did not answer')))
    abandoned.addEventListener('abort', giveUp)
    // `close` follows every error. The listener stays registered, because the tunnel relies on `close` too.
    socket
      .on('error', () => {})
      .on('connect', succeed)
      .on('close', giveUp)
  })
}

function isNoRecord(reason: unknown): boolean {
  const code: unknown = Object(reason).code
  return code === NODATA || code === NOTFOUND
}
