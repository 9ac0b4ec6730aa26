/**
 * Decides at which address a provisioned worker dials its host, and refuses where no other machine could reach it.
 *
 * `fleet.publicUrl` is the operator's word and wins. Without it the fleet listener's own address is used; a listener on
 * all addresses is dialled at the one by which the host has reached the target.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { isLoopback, isWildcard } from '../../protocol/loopback.ts'
import { no, type Result, yes } from '../result.ts'

export interface FleetAddress {
  readonly url: string
  /** The line leaves the machine without encryption, and the operator has written so. */
  readonly isExposed: boolean
}

type Fleet = ServiceConfig['fleet']

const CURE =
  'let the fleet listener listen on an address of this machine: switchyard config set fleet.host ADDRESS, give it a certificate in fleet.tls, and restart the host'
const UNENCRYPTED =
  'the fleet listener has no certificate, and credentials of runs would cross the network readable; set fleet.tls.certFile and fleet.tls.keyFile, or fleet.publicUrl when the network in between is encrypted already, or fleet.insecure when it is trusted'

/** Refused as `conflict`. @param port the port of the open fleet listener; undefined when it is off */
export function requireReachableFleet(fleet: Fleet, port: number | undefined): Result<void> {
  const host = fleet.host ?? ''
  if (host === '')
    return no(
      'conflict',
      `workers of other machines can't connect, because the fleet listener is off; ${CURE}`,
    )
  if (fleet.publicUrl === undefined && isLoopback(host))
    return no(
      'conflict',
      `workers of other machines can't connect, because the fleet listener is reachable from this machine only (${host}); ${CURE}`,
    )
  if (port === undefined)
    return no(
      'conflict',
      `workers of other machines can't connect yet, because the host uses fleet.host (${host}) from its next start on; restart the host`,
    )
  if (fleet.publicUrl !== undefined) return yes(undefined)
  if (fleet.tls === undefined && fleet.insecure !== true && !isWildcard(host))
    return no('conflict', UNENCRYPTED)
  return yes(undefined)
}

/** @param localAddress the host's address on its connection to the target */
export function chooseFleetAddress(fleet: Fleet, port: number, localAddress: string): Result<FleetAddress> {
  if (fleet.publicUrl !== undefined) {
    const { protocol, hostname } = new URL(fleet.publicUrl)
    const isPlain = protocol === 'http:' || protocol === 'ws:'
    return yes({ url: fleet.publicUrl.replace(/\/+$/, ''), isExposed: isPlain && !isLoopback(hostname) })
  }
  const configured = (fleet.host ?? '').replace(/^\[|\]$/g, '')
  const host = isWildcard(configured) ? localAddress.replace(/^::ffff:(?=\d+\.)/i, '') : configured
  const isExposed = fleet.tls === undefined && !isLoopback(host)
  if (isExposed && fleet.insecure !== true) return no('conflict', UNENCRYPTED)
  const scheme = fleet.tls === undefined ? 'http' : 'https'
  return yes({ url: `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`, isExposed })
}
