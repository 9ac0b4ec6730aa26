/**
 * Parses the address of a git repository. The configuration and the worker use the same parser.
 *
 * Allowed are https, ssh, plain http, and folders of the machine. Everything else is refused, for example `ext::…`,
 * which would run a command. The grammar is narrower than that of URLs, so that git, curl, ssh and this service can't
 * read one address differently. Whether a worker may contact the address is the worker's own policy
 * (`worker/git/remote-policy.ts`).
 */
import { PORT_MAX } from './limits.ts'
import type { Parsed } from './parse.ts'

export type GitAddress = LocalGitAddress | NetworkGitAddress

export interface LocalGitAddress {
  readonly protocol: 'file'
  /** An absolute path. */
  readonly path: string
}

export interface NetworkGitAddress {
  readonly protocol: 'https' | 'http' | 'ssh'
  /** A name in lower case, or an address without brackets. */
  readonly host: string
  readonly port: number
}

const DEFAULT_PORTS: Readonly<Record<NetworkGitAddress['protocol'], number>> = {
  https: 443,
  http: 80,
  ssh: 22,
}
/** Ports that git contacts on every public host. */
export const USUAL_PORTS: readonly number[] = Object.values(DEFAULT_PORTS)

const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const IPV4 = new RegExp(`^(?:${OCTET}\\.){3}${OCTET}$`)
const IPV6_CHARS = /^[0-9a-f:.]+$/i
const PATH = /^\/[^\0\r\n]*$/
const URL_FORM =
  /^(?<protocol>https?|ssh):\/\/(?:[A-Za-z0-9_][\w.~+-]*@)?(?:\[(?<ipv6>[0-9a-f:.]+)\]|(?<host>[\w.-]+))(?::(?<port>\d{1,5}))?\/[^\s\p{Cc}\\]*$/iu
const SCP_FORM = /^[A-Za-z0-9_][\w.-]*@(?<host>[\w.-]+):(?![:-])[^\s\p{Cc}]+$/u
/** The last label begins with a letter, so no program takes the name for a number, that is for an address. */
const HOST_NAME = /^(?:[a-z0-9_](?:[\w-]*\w)?\.)*[a-z_](?:[\w-]*\w)?$/

export function parseGitAddress(address: string): Parsed<GitAddress> {
  if (address.startsWith('/'))
    return PATH.test(address) ? local(address) : refused('is not a path that git can use')
  if (address.startsWith('file:')) return parseFileUrl(address)
  const scp = SCP_FORM.exec(address)?.groups
  if (scp !== undefined) return network('ssh', scp.host ?? '', undefined)
  const { protocol, ipv6, host, port } = URL_FORM.exec(address)?.groups ?? {}
  if (protocol === undefined) return refused('is no address that git can use')
  if (ipv6 !== undefined && !isIPv6(ipv6)) return refused(`names a host that is no IPv6 address`)
  return network(protocol.toLowerCase() as NetworkGitAddress['protocol'], ipv6 ?? host ?? '', port)
}

/** The origins (`host:port`) that an entry of `--private-code-host` stands for; none when it is no host. */
export function originsOfHostEntry(entry: string): string[] {
  const isBareIpv6 = isIPv6(entry)
  const parsed = parseGitAddress(`https://${isBareIpv6 ? `[${entry}]` : entry}/`)
  if (!parsed.ok || parsed.value.protocol === 'file' || /[@/]/.test(entry)) return []
  const { host, port } = parsed.value
  const hasPort = !isBareIpv6 && /:\d+$/.test(entry.replace(/^\[.*\]/, ''))
  return (hasPort ? [port] : USUAL_PORTS).map((usual) => originOf(host, usual))
}

export function originOf(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}

/** Git reads `file://host/path` as a path too, but a person who writes it means another machine. */
function parseFileUrl(address: string): Parsed<GitAddress> {
  if (!address.startsWith('file:///')) return refused('names a host in a file address; write file:///path')
  try {
    const path = decodeURIComponent(address.slice('file://'.length))
    return PATH.test(path) ? local(path) : refused('is not a path that git can use')
  } catch {
    return refused('has a % that is no encoded character')
  }
}

function network(
  protocol: NetworkGitAddress['protocol'],
  host: string,
  digits: string | undefined,
): Parsed<GitAddress> {
  const port = digits === undefined ? DEFAULT_PORTS[protocol] : Number(digits)
  const name = host.toLowerCase()
  if (port < 1 || port > PORT_MAX) return refused('names a port that does not exist')
  if (!IPV4.test(name) && !isIPv6(name) && !HOST_NAME.test(name))
    return refused('names a host that is no host name')
  return { ok: true, value: { protocol, host: name, port } }
}

function isIPv6(host: string): boolean {
  return IPV6_CHARS.test(host) && URL.canParse(`http://[${host}]/`)
}

function local(path: string): Parsed<GitAddress> {
  return { ok: true, value: { protocol: 'file', path } }
}

function refused(reason: string): Parsed<never> {
  return { ok: false, error: `${reason}; set it to an https, ssh or file address, or to a path` }
}
