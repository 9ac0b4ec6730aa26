/**
 * Decides which host names and ports a run may connect to. `connect.ts` checks the resolved addresses.
 *
 * A target has one accepted form: a lower-case host name or a canonical address, and a port. Anything that programs
 * could read differently (a trailing dot, a number as an address, a user name, a percent sign) is refused first, so
 * that plain string comparison is safe. An entry of `sandbox.allowedHosts` is a host, with an optional `*.` prefix for
 * its subdomains (excluding the host itself) and an optional port; without a port it allows 443 and 80.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { no, type Result, yes } from '../../../core/result.ts'
import { PORT_MAX } from '../../../protocol/limits.ts'
import { isPublic } from '../../../providers/http/public-addresses.ts'

export interface ConnectTarget {
  readonly host: string
  readonly port: number
  /** The host is an address and needs no lookup. */
  readonly isLiteral: boolean
}

export interface NetworkPolicy {
  /** Every public host may be reached. */
  readonly isOpen: boolean
  checkTarget(target: ConnectTarget): Result<void>
  /** Allows further hosts: entries as in `sandbox.allowedHosts`. */
  allow(entries: readonly string[]): void
  /** A sentence for each entry that can never match. */
  readonly uselessEntries: readonly string[]
}

export interface NetworkRules {
  readonly network: 'open' | 'allowlist'
  readonly allowedHosts: readonly string[]
}

const WEB_PORTS: readonly number[] = [443, 80]
const NAME_CHARS_MAX = 253
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
/**
 * Requires a dot, since bare words resolve to hosts of the local network. The last label must not look like a number.
 */
const NAME = new RegExp(`^(?:${LABEL}\\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+):([1-9][0-9]{0,4})$/
const ENTRY = /^(\*\.)?([a-z0-9.-]+)(?::([1-9][0-9]{0,4}))?$/

/** Parses the target of `CONNECT host:port`. */
export function parseTarget(authority: string): Result<ConnectTarget> {
  const [, host = '', digits = ''] = AUTHORITY.exec(authority) ?? []
  const port = Number(digits)
  if (host.startsWith('[')) return parseIpv6Target(host.slice(1, -1), port)
  if (!isPort(port) || !(isHostName(host) || isIPv4(host))) {
    return no('invalid', 'the target is not a plain host:port in lower case; write it like example.org:443')
  }
  return yes({ host, port, isLiteral: isIPv4(host) })
}

/** `log` receives each new name below a wildcard. */
export function makeNetworkPolicy(
  { network, allowedHosts }: NetworkRules,
  log: (line: string) => void = () => {},
): NetworkPolicy {
  if (network === 'open')
    return { isOpen: true, checkTarget: () => yes(undefined), allow: () => {}, uselessEntries: [] }
  const entries = allowedHosts.map(parseEntry)
  const rules = rulesOf(entries)
  const names = new WildcardNames(log)
  return {
    isOpen: false,
    checkTarget: (target) => {
      const matching = rules.filter((rule) => allows(rule, target))
      const [first] = matching
      if (first === undefined) return refuseUnlisted(target)
      return matching.every(({ subdomains }) => subdomains)
        ? names.admit(target.host, first.host)
        : yes(undefined)
    },
    allow: (more) => void rules.push(...rulesOf(more.map(parseEntry))),
    uselessEntries: entries.flatMap((entry) => (entry.ok ? [] : [entry.refusal.message])),
  }
}

// ---- targets -----------------------------------------------------------------------------------------------------

function parseIpv6Target(host: string, port: number): Result<ConnectTarget> {
  if (isPort(port) && isIPv6(host)) return yes({ host, port, isLiteral: true })
  return no('invalid', 'the target is not an address and a port; write it like [2620:fe::fe]:443')
}

function isPort(port: number): boolean {
  return port >= 1 && port <= PORT_MAX
}

export function isHostName(host: string): boolean {
  return host.length <= NAME_CHARS_MAX && NAME.test(host) && !host.endsWith('.localhost')
}

function refuseUnlisted({ host, port, isLiteral }: ConnectTarget): Result<void> {
  if (isLiteral && !(isIPv4(host) && isPublic(host))) {
    return no('forbidden', 'sandbox.allowedHosts cannot allow this address; connect to a host by its name')
  }
  const entry = WEB_PORTS.includes(port) ? host : `${host}:${port}`
  return no('forbidden', `the target is not in sandbox.allowedHosts; add "${entry}" there to allow it`)
}

// ---- entries -----------------------------------------------------------------------------------------------------

interface AllowRule {
  readonly host: string
  readonly subdomains: boolean
  readonly ports: readonly number[]
}

/** Configured entries may use upper case; requested targets may not. */
function parseEntry(entry: string): Result<AllowRule> {
  const [match, wildcard, host = '', digits] = ENTRY.exec(entry.toLowerCase()) ?? []
  const ports = digits === undefined ? WEB_PORTS : [Number(digits)]
  if (match === undefined || !ports.every(isPort))
    return uselessEntry(entry, 'it is not a host name with a port or none')
  if (isHostName(host)) return yes({ host, subdomains: wildcard !== undefined, ports })
  if (!isIPv4(host) || wildcard !== undefined)
    return uselessEntry(entry, 'it is not a full host name, such as example.org')
  if (!isPublic(host)) return uselessEntry(entry, 'sandboxes reach public addresses only')
  return yes({ host, subdomains: false, ports })
}

function rulesOf(entries: readonly Result<AllowRule>[]): AllowRule[] {
  return entries.flatMap((entry) => (entry.ok ? [entry.value] : []))
}

function uselessEntry(entry: string, reason: string): Result<AllowRule> {
  return no('invalid', `sandbox.allowedHosts has ${JSON.stringify(entry)}, which allows nothing: ${reason}`)
}

function allows({ host, subdomains, ports }: AllowRule, target: ConnectTarget): boolean {
  if (!ports.includes(target.port)) return false
  return subdomains ? target.host.endsWith(`.${host}`) : target.host === host
}

// ---- names below wildcards -----------------------------------------------------------------------------------------

/** Names below wildcards of `sandbox.allowedHosts` that one sandbox may reach. */
export const WILDCARD_NAMES_MAX = 50

/**
 * Counts the names below the wildcards of a run, because whoever owns a zone reads what is asked of it.
 *
 * A name carries as much as a short message, and its lookup alone delivers it. So new names are logged, and few.
 */
class WildcardNames {
  readonly #names = new Set<string>()
  readonly #log: (line: string) => void

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  /** `zone`: the entry without its `*.`. */
  admit(name: string, zone: string): Result<void> {
    if (this.#names.has(name)) return yes(undefined)
    if (this.#names.size >= WILDCARD_NAMES_MAX)
      return no(
        'forbidden',
        `this run has used ${WILDCARD_NAMES_MAX} names below wildcards; add "${name}" to sandbox.allowedHosts to allow it`,
      )
    this.#names.add(name)
    this.#log(`${name} is name ${this.#names.size} of ${WILDCARD_NAMES_MAX} below wildcards, by *.${zone}`)
    return yes(undefined)
  }
}
