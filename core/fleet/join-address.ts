/** Tells at which address a machine that joins by hand dials this host, as far as the configuration knows. */
import type { ServiceConfig } from '../../protocol/config.ts'
import { isLoopback, isWildcard } from '../provision/fleet-address.ts'

export interface JoinAddress {
  /** `ADDRESS` stands for the host where it listens on all of its addresses. */
  readonly url: string
  /** The line leaves the machine without encryption, which the worker has to allow. */
  readonly isExposed: boolean
  /** Only this machine reaches the host. */
  readonly isHereOnly: boolean
}

/** @param managementUrl where the management listener is, for workers on the same machine */
export function joinAddress(fleet: ServiceConfig['fleet'], managementUrl: string): JoinAddress {
  const host = (fleet.host ?? '').replace(/^\[|\]$/g, '')
  if (host === '' && fleet.publicUrl === undefined)
    return { url: managementUrl, isExposed: false, isHereOnly: true }
  const scheme = fleet.tls === undefined ? 'http' : 'https'
  const named = isWildcard(host) ? 'ADDRESS' : host.includes(':') ? `[${host}]` : host
  const url = fleet.publicUrl?.replace(/\/+$/, '') ?? `${scheme}://${named}:${fleet.port}`
  const { hostname, protocol } = new URL(url)
  const isPlain = protocol === 'http:' || protocol === 'ws:'
  const isHere = isLoopback(hostname)
  return { url, isExposed: isPlain && !isHere, isHereOnly: isHere }
}
