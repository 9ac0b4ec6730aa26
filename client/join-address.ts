/** Tells at which address and with which command another machine joins, as far as the configuration knows. */
import type { ServiceConfig } from '../protocol/config.ts'
import { isLoopback, isWildcard } from '../protocol/loopback.ts'
import { quoteWord } from '../protocol/quote-word.ts'

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

export interface HostMarks {
  /** The fleet listener's certificate. */
  readonly fingerprint?: string | undefined
  /** The user whose program the host is, for a worker on its machine. */
  readonly hostUser?: string | undefined
  /** The port of the fleet listener since the start, 0 without one; undefined from a host that does not say. */
  readonly fleetPort?: number | undefined
  /** The port of the configuration; 0 where any port will do. */
  readonly serverPort?: number | undefined
}

export interface JoinCommand {
  /** The line to paste. */
  readonly line: string
  /** Sentences about what the line does not say. */
  readonly notes: readonly string[]
}

/**
 * The line with which a machine joins; the token or the key is in a file there, so that no list of processes shows it.
 *
 * @param marks by which the machine recognises the host
 */
export function joinCommand(
  fleet: ServiceConfig['fleet'],
  managementUrl: string,
  option: '--token-file' | '--join-key-file',
  { fingerprint, hostUser, fleetPort = fleet.port, serverPort = 0 }: HostMarks,
): JoinCommand {
  const { url, isExposed, isHereOnly } = joinAddress(fleet, managementUrl)
  // Behind a public address another program may show another certificate.
  const isOwn = fingerprint !== undefined && fleet.publicUrl === undefined
  const pin = isOwn ? ['--fingerprint', fingerprint] : []
  const trust = isExposed ? ['--insecure'] : []
  // With TLS the certificate tells whose program answers.
  const isJudged = isHereOnly && hostUser !== undefined && /^(http|ws):/.test(url)
  const user = isJudged ? ['--host-user', hostUser] : []
  const words = ['switchyard', 'worker', '--host', url, ...trust, option, 'FILE', ...pin, ...user]
  const notes: string[] = []
  if (fingerprint !== undefined && !isOwn)
    notes.push(`The certificate of this host has the SHA-256 fingerprint ${fingerprint}.`)
  const port = Number(new URL(managementUrl).port)
  if (url !== managementUrl) {
    if ((fleet.host ?? '') !== '' && fleetPort !== fleet.port) notes.push(restartNote(fleetPort, fleet.port))
  } else if (serverPort !== 0 && port !== serverPort) notes.push(restartNote(port, serverPort))
  if (isHereOnly)
    notes.push(
      'Only this machine reaches that address. For others: switchyard config set fleet.host ADDRESS, give the host a certificate in fleet.tls, and restart it.',
    )
  return { line: words.map(quoteWord).join(' '), notes }
}

/** @param now 0 where the host does not listen for other machines yet */
const restartNote = (now: number, then: number): string =>
  `A restart of the host is due: it listens ${now === 0 ? 'for this machine only' : `on port ${now}`}, and on ${then} from its next start on. Restart it first, or start the worker then.`
