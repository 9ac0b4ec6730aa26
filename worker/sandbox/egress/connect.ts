/**
 * From a name to an open connection, to the very address that was judged.
 *
 * A name is looked up once. If any of its addresses may not be reached none is, for a name with both kinds is either
 * broken or an attempt to be asked twice. The connection is then made to an address, never to the name.
 */
import { NODATA, NOTFOUND, Resolver } from 'node:dns/promises'
import { connect, isIPv4, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Clock } from '../../../core/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { isPublicAndRemote } from './addresses.ts'
import type { ConnectTarget } from './policy.ts'

/** The addresses of a name, [] when there are none; rejects when nobody could be asked. */
export type ResolveHost = (host: string) => Promise<readonly string[]>
export type MayReachAddress = (address: string, port: number) => boolean

const LOOKUP_MS_MAX = 3_000
const LOOKUP_TRIES = 2
const CONNECT_MS_MAX = 7_000
const ADDRESSES_TRIED_MAX = 3

/**
 * Asks the machine's name servers directly. The system's own function would wait in one of the few threads that all
 * of the worker's file work shares, and a sandbox that asks for dead names could hold every one of them. What a
 * person put into /etc/hosts is not seen.
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
  { host, port, isLiteral: literal }: ConnectTarget,
  resolve: ResolveHost,
  mayReach: MayReachAddress,
): Promise<Result<readonly string[]>> {
  const addresses = literal ? [host] : await resolve(host).catch(() => undefined)
  if (addresses === undefined) return no('unavailable', 'its name could not be looked up; try again later')
  if (addresses.length === 0) return no('unavailable', 'there is no such host')
  if (addresses.every((address) => mayReach(address, port))) return yes(addresses)
  return no(
    'forbidden',
    'it is not at a public address, and sandboxes reach no others, whatever is configured',
  )
}

/** One address after the other, until one takes the connection or nobody waits for it any more. */
export async function openConnection(
  addresses: readonly string[],
  port: number,
  clock: Clock,
  abandoned: AbortSignal,
): Promise<Result<Socket>> {
  // Where a network lacks one of the two, that one fails at once; where one is broken, it is IPv6.
  const ordered = [...addresses].sort((a, b) => Number(isIPv4(b)) - Number(isIPv4(a)))
  let last: Result<Socket> = no('unavailable', 'it has no address')
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
  if (abandoned.aborted) return Promise.resolve(no('gone', 'nobody waits for it any more'))
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
    const giveUp = () => settle(no('unavailable', 'it does not take connections there'))
    const cancel = clock.after(CONNECT_MS_MAX, () => settle(no('unavailable', 'it does not answer')))
    abandoned.addEventListener('abort', giveUp)
    // An error is followed by the close; this listener stays, for the tunnel's errors are told by the close as well.
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
