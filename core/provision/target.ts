/**
 * The target of a provisioning: its request, the address at which its worker dials the host, and what its commands read.
 *
 * `readTarget` checks the fields of a provisioning request. Each value is safe afterwards as an argument, in a line of
 * text and in the command that a person repeats.
 */
import type { ServiceConfig } from '../../protocol/config.ts'
import { isLoopback, isWildcard } from '../../protocol/loopback.ts'
import type { ProvisionRequest } from '../../protocol/provision.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { normalizeWorkerName } from '../fleet/admission.ts'
import type { RemoteCommand, RemoteTarget } from '../ports/machines.ts'
import { no, type Result, yes } from '../result.ts'

export interface ProvisionTarget extends RemoteTarget {
  readonly name: string
  readonly concurrency: number
}

const SSH_PORT = 22
const CONCURRENCY = 2

const HOST_NAME = /^(?=.{1,253}$)[a-z\d]([a-z\d_-]*[a-z\d])?(\.[a-z\d]([a-z\d_-]*[a-z\d])?)*\.?$/i
const IPV6 = /^(?=.*:)[\da-f:]+(:\d{1,3}(\.\d{1,3}){3})?(%[\w.-]+)?$/i
const USER = /^[\w][\w.@+-]*\$?$/
const FINGERPRINT = /^(SHA256:)?[A-Za-z0-9+/]{43}=?$/
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

export function readTarget(request: ProvisionRequest): Result<ProvisionTarget> {
  const host = request.host.replace(/^\[(.*)\]$/, '$1')
  const { user, port = SSH_PORT, concurrency = CONCURRENCY, identityFile, hostKeySha256 } = request
  if (!HOST_NAME.test(host) && !IPV6.test(host))
    return no('invalid', '/host: must be a host name or an address, such as forge or 192.0.2.7')
  if (!USER.test(user))
    return no('invalid', '/user: must be the name of a user, of letters, digits and . _ - @ +')
  if (identityFile !== undefined && (!/^(\/|~\/)/.test(identityFile) || CONTROL.test(identityFile)))
    return no('invalid', '/identityFile: must be an absolute path, or one that begins with ~/')
  if (hostKeySha256 !== undefined && !FINGERPRINT.test(hostKeySha256))
    return no('invalid', '/hostKeySha256: must be a fingerprint as ssh-keygen -l prints it: SHA256:…')
  if (request.name !== undefined && CONTROL.test(request.name))
    return no('invalid', '/name: must have no control characters')
  const name = normalizeWorkerName(request.name ?? host)
  if (name === '') return no('invalid', '/name: must have a visible character')
  return yes({
    host,
    user,
    port,
    name,
    concurrency,
    ...(identityFile === undefined ? {} : { identityFile }),
    ...(hostKeySha256 === undefined
      ? {}
      : { hostKeySha256: `SHA256:${hostKeySha256.replace(/^SHA256:|=$/g, '')}` }),
  })
}

/** Names a provisioning: two of the same machine and user never run at once. */
export const targetId = ({ user, host, port }: RemoteTarget): string =>
  `${user}@${host.includes(':') ? `[${host}]` : host}${port === SSH_PORT ? '' : `:${port}`}`

/** The command that provisions the target again, with a fingerprint that a person has compared. */
export function provisionCommand(
  target: RemoteTarget & Partial<ProvisionTarget>,
  fingerprint: string,
): string {
  const { user, host, port, identityFile, name, concurrency } = target
  const options = [
    ...(port === SSH_PORT ? [] : [`--port ${port}`]),
    ...(identityFile === undefined ? [] : [`--identity-file ${quoteWord(identityFile)}`]),
    ...(name === undefined || name === host ? [] : [`--name ${quoteWord(name)}`]),
    ...(concurrency === undefined || concurrency === CONCURRENCY ? [] : [`--concurrency ${concurrency}`]),
  ]
  const words = [quoteWord(`${user}@${host}`), ...options, `--host-key-sha256 ${fingerprint}`]
  return `switchyard workers provision ${words.join(' ')}`
}

// ---- the address of the host -------------------------------------------------------------------------------------

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

/**
 * Decides at which address a provisioned worker dials its host, and refuses where no other machine could reach it.
 *
 * `fleet.publicUrl` is the operator's word and wins. Without it the fleet listener's own address is used; a listener on
 * all addresses is dialled at the one by which the host has reached the target.
 *
 * @param localAddress the host's address on its connection to the target
 */
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

// ---- what a command reads ----------------------------------------------------------------------------------------

/**
 * The command line for the target's login shell, whichever that is: no newline, no backslash, one pair of quotes. `dd`
 * reads exactly the script, and what follows stays for the script to read.
 */
export const remoteCommandLine = ({ script }: Pick<RemoteCommand, 'script'>): string =>
  `exec sh -c 'eval "$(dd bs=1 count=${Buffer.byteLength(script)} 2>/dev/null)"'`

/** The script, then each value as the number of its lines and the lines. */
export const remoteInput = ({ script, values }: Pick<RemoteCommand, 'script' | 'values'>): string =>
  `${script}${values.map(encodeValue).join('')}`

function encodeValue(value: string): string {
  const lines = value === '' ? [] : value.replace(/\n$/, '').split('\n')
  return `${lines.length}\n${lines.map((line) => `${line}\n`).join('')}`
}
