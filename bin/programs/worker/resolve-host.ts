/**
 * `resolveHost` checks the options of a worker for its host: the address, whom to trust, and the proxy on the way.
 */
import type { HostOwner } from '../../../client/connection.ts'
import { ForeignPeer } from '../../../client/errors.ts'
import { findHostOf } from '../../../client/find-host.ts'
import { findUser, ownUser, provePeer } from '../../../client/peer-owner.ts'
import type { Dialer } from '../../../core/daemon/ports.ts'
import { parseFingerprint } from '../../../core/fleet/token.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { ProxySettings } from '../../../providers/http/http-types.ts'
import type { DialPin, ProvePeer } from '../../../worker/dial-network.ts'
import { createDialer } from '../../../worker/dialer.ts'
import { type HostUrl, parseHostUrl } from '../../../worker/host-url.ts'
import { realClock } from '../../process/clock.ts'
import { unwrapOrExit, usageError } from '../../process/exit.ts'
import { readAuthorities, readProxies } from '../../process/network.ts'

export interface HostChoice {
  readonly host?: string
  /** Instead of `host`: the data directory of a host on this machine. */
  readonly hostDataDir?: string
  readonly caFile?: string
  readonly insecure?: true
  /** The host's certificate or its key, as a person gave it. */
  readonly fingerprint?: string
  /** The key that an earlier connection has found behind the fingerprint. */
  readonly hostKey?: string
  /** The user whose program a host on this machine is, beside this process's own and root. */
  readonly hostUser?: string
}

/** The way to the host, for the worker channel and for requests. */
export interface HostRoute {
  /** The address of the worker channel, read before each connection. Throws while no host runs. */
  readonly url: () => string
  /** The host for people: its address, or where that is read. */
  readonly name: string
  readonly hostname: string
  readonly authorities?: readonly string[]
  readonly pin?: DialPin
  readonly proxies?: ProxySettings
  readonly provePeer: ProvePeer
  /** In place of the port. */
  readonly socketPath?: () => string | undefined
}

export function resolveHost(options: HostChoice, log: Pick<Log, 'warn'>): HostRoute {
  const { hostDataDir } = options
  if (hostDataDir !== undefined) return routeToThisMachine(hostDataDir, options)
  if (options.host === undefined) {
    throw usageError(
      '--host is missing: the address of the host, like https://host.example:4401, or http://127.0.0.1:4400 for this machine',
    )
  }
  const host = unwrapOrExit(parseHostUrl(options.host, options.insecure === true))
  if (host.exposed)
    log.warn(
      { url: host.url },
      'the connection to the host is NOT encrypted: anybody on the network path can read the credentials of every run; use https:// as soon as you can',
    )
  return createRoute(host, options, log)
}

/** A host on this machine may come back at another port, which its data directory names. */
function routeToThisMachine(
  hostDataDir: string,
  { host, fingerprint, caFile, insecure, hostUser }: HostChoice,
): HostRoute {
  const given = {
    '--host': host,
    '--fingerprint': fingerprint,
    '--ca-file': caFile,
    '--insecure': insecure,
    '--host-user': hostUser,
  }
  for (const [name, value] of Object.entries(given))
    if (value !== undefined) throw usageError(`${name}: leave it out with --host-data-dir, which says it all`)
  const url = () => unwrapOrExit(parseHostUrl(findHostOf(hostDataDir).url, false)).url
  const owner = () => findHostOf(hostDataDir).owner
  const socketPath = () => owner()?.socketPath
  const name = `the host of ${hostDataDir}`
  return { url, name, hostname: '127.0.0.1', provePeer: proveAs(owner), socketPath }
}

export const createHostDialer = (route: HostRoute, log: Log): Dialer =>
  createDialer({ clock: realClock, log, ...route })

function createRoute({ url, loopback }: HostUrl, choice: HostChoice, log: Pick<Log, 'warn'>): HostRoute {
  const owner = ownerOf(choice, log)
  const trusted = url.startsWith('wss:') ? readTrust(choice) : {}
  if (choice.fingerprint !== undefined && !url.startsWith('wss:'))
    throw usageError('--fingerprint: needs an address that begins with https:// or wss://')
  const proxySettings = loopback ? undefined : unwrapOrExit(readProxies(process.env))
  const proxies = proxySettings === undefined ? {} : { proxies: proxySettings }
  const { hostname } = new URL(url)
  return { url: () => url, name: url, hostname, provePeer: proveAs(() => owner), ...trusted, ...proxies }
}

/** A name that this machine lacks allows nobody more: the address may lead to another machine through a tunnel. */
function ownerOf({ hostUser }: HostChoice, log: Pick<Log, 'warn'>): HostOwner {
  const { users } = ownUser()
  const named = hostUser === undefined ? undefined : findUser(hostUser)
  if (hostUser !== undefined && named === undefined)
    log.warn(
      { hostUser },
      '--host-user: /etc/passwd does not name that user, so the host must run as this one, or as root; give the number, which id -u prints',
    )
  return { users: named === undefined ? users : [named, ...users], setting: '--host-user ' }
}

/** The worker's log has one text for an error, so the cure is a part of it. */
const proveAs =
  (owner: () => HostOwner | undefined): ProvePeer =>
  (socket) =>
    provePeer(socket, owner()).catch((error: unknown) => {
      throw error instanceof ForeignPeer ? new Error(`${error.message}; ${error.cure}`) : error
    })

function readTrust({ caFile, fingerprint, hostKey }: HostChoice): Pick<HostRoute, 'authorities' | 'pin'> {
  const authorities = unwrapOrExit(readAuthorities(caFile, process.env))
  if (fingerprint === undefined) return { authorities }
  const pin = { fingerprint: unwrapOrExit(parseFingerprint(fingerprint)) }
  return { authorities, pin: hostKey === undefined ? pin : { ...pin, key: hostKey } }
}
