/**
 * Judges the addresses of the two listeners: at start, before they are opened, and before a change of them is accepted.
 *
 * The host binds its listeners once, so a change that the next start would refuse must be refused when it is made. Which
 * addresses the machine has, and which ports are free, only the start can tell.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { isLoopback, isWildcard, LOOPBACK_IPV4 } from '../../protocol/loopback.ts'
import { no, type Result, yes } from '../result.ts'
import { isJsonEqual } from './json-values.ts'

export type TlsFiles = NonNullable<ServiceConfig['fleet']['tls']>

/** Reads the files, and returns why they are not a certificate and its key. */
export type FindTlsFault = (files: TlsFiles) => string | undefined

export interface ListenerAddress {
  readonly host: string
  readonly port: number
}

export interface FleetListenerAddress extends ListenerAddress {
  readonly tls?: TlsFiles
  /** The operator accepts that other machines connect without encryption. */
  readonly insecure?: boolean
}

export interface ListenerAddresses {
  readonly management: ListenerAddress
  readonly fleet?: FleetListenerAddress
}

export interface ListenerFault {
  /** The setting, like `/fleet/host`. */
  readonly path: string
  /** The fault of its value, and the cure. */
  readonly problem: string
}

export function listenersOf({ server, fleet }: ServiceConfig): ListenerAddresses {
  const management = { host: server.host, port: server.port }
  if (fleet.host === undefined || fleet.host === '') return { management }
  const { host, port, insecure, tls } = fleet
  return {
    management,
    fleet: { host, port, insecure: insecure === true, ...(tls === undefined ? {} : { tls }) },
  }
}

export function findAddressFault({ management, fleet }: ListenerAddresses): ListenerFault | undefined {
  if (fleet === undefined) return undefined
  const exposure = fleet.insecure === true ? undefined : exposureOf(fleet)
  if (exposure !== undefined) return { path: '/fleet/host', problem: `${exposure}; ${ENCRYPTION_CURE}` }
  if (fleet.port === 0 || fleet.port !== management.port || !haveSameAddress(fleet.host, management.host))
    return undefined
  return { path: '/fleet/port', problem: `${fleet.port} is ${PORT_TAKEN}` }
}

/** Returns what is wrong with a fleet listener that other machines reach without encryption. */
export function exposureOf({ host, tls }: FleetListenerAddress): string | undefined {
  if (tls !== undefined || LOOPBACK.test(host)) return undefined
  return `${host} lets other machines connect without encryption, and anyone on the way could read the credentials of runs`
}

/**
 * Refuses a change of the listeners with which the host would not start. A change of other settings passes, also when
 * the files of the certificate have disappeared meanwhile, so that a host can still be paused then.
 */
export function requireOpenListeners(
  before: ServiceConfig,
  after: ServiceConfig,
  findTlsFault: FindTlsFault,
): Result<true> {
  const addresses = listenersOf(after)
  if (isJsonEqual(listenersOf(before), addresses)) return yes(true)
  const fault = findAddressFault(addresses)
  if (fault !== undefined) return no('invalid', `${fault.path}: ${fault.problem}`)
  const tls = addresses.fleet?.tls
  const tlsFault = tls === undefined ? undefined : findTlsFault(tls)
  return tlsFault === undefined ? yes(true) : no('invalid', `/fleet/tls: ${tlsFault}`)
}

/** Stricter than `isLoopback`: a name below `localhost` may lead to another machine. */
const LOOPBACK = new RegExp(`^(localhost|${LOOPBACK_IPV4}|::1|\\[::1\\])$`, 'i')

const ENCRYPTION_CURE =
  'set fleet.tls.certFile and fleet.tls.keyFile in config.json (this command makes them: ' +
  'openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=switchyard ' +
  '-keyout fleet-key.pem -out fleet-cert.pem), or "insecure": true in its section "fleet" where the network is trusted'

const PORT_TAKEN =
  'the port of the management listener too, on the same address; choose another one for server.port or fleet.port'

/** A listener on all addresses has each one, and `localhost` is one of the loopback addresses. */
function haveSameAddress(fleet: string, management: string): boolean {
  const hosts = [fleet, management].map((host) => host.replace(/^\[|\]$/g, '').toLowerCase())
  const [first, second] = hosts
  return (
    first === second || hosts.some(isWildcard) || (hosts.includes('localhost') && hosts.every(isLoopback))
  )
}
