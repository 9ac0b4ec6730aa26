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
  /** A name in lower case without a final dot, or an address without brackets. */
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
  /^(?<protocol>https?|ssh):\/\/(?:(?<user>(?:[\w.~+-]|%[0-9A-Fa-f]{2})+)@)?(?:\[(?<ipv6>[0-9A-Fa-f:.]+)\]|(?<host>[\w.-]+))(?::(?<port>\d{1,5}))?(?<path>\/[^\s\p{Cc}\\]*)$/u
const SCP_FORM = /^(?<user>[A-Za-z0-9_][\w.-]*)@(?<host>[\w.-]+):(?<path>(?![:-])[^\s\p{Cc}]+)$/u
/** A decoded user name. Git decodes it before it looks for the host, so it has none of the separators `/`, `:` and `[`. */
const USER_NAME = /^[\p{L}\p{N}_][\p{L}\p{N}\w.~+@=,\\-]*$/u
/** For ssh, git takes what follows `@[` anywhere in the decoded address for the host. */
const BRACKET = /[[\]]|%5[BDbd]/
/** The last label begins with a letter, so no program takes the name for a number, that is for an address. */
const HOST_NAME = /^(?:[a-z0-9_](?:[\w-]*\w)?\.)*[a-z_](?:[\w-]*\w)?$/

export function parseGitAddress(address: string): Parsed<GitAddress> {
  if (address.startsWith('/'))
    return PATH.test(address) ? local(address) : refused('is not a path that git can use')
  if (address.startsWith('file:')) return parseFileUrl(address)
  const parts = SCP_FORM.exec(address)?.groups ?? URL_FORM.exec(address)?.groups
  if (parts === undefined) return refused('is no address that git can use')
  const { protocol, user = '_', ipv6, host, port, path = '' } = parts
  if (!USER_NAME.test(decoded(user) ?? '')) return refused('names a user that ssh could misread')
  if (ipv6 !== undefined && !isIPv6(ipv6)) return refused('names a host that is no IPv6 address')
  const isHttp = protocol === 'http' || protocol === 'https'
  if (!isHttp && BRACKET.test(path)) return refused('has a bracket in its path, which git takes for a host')
  return network(isHttp ? protocol : 'ssh', ipv6 ?? host ?? '', port)
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
  const path = decoded(address.slice('file://'.length))
  if (path === undefined) return refused('has a % that is no encoded character')
  return PATH.test(path) ? local(path) : refused('is not a path that git can use')
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function network(
  protocol: NetworkGitAddress['protocol'],
  host: string,
  digits: string | undefined,
): Parsed<GitAddress> {
  const port = digits === undefined ? DEFAULT_PORTS[protocol] : Number(digits)
  const written = host.toLowerCase()
  const name = written.replace(/\.$/, '')
  if (port < 1 || port > PORT_MAX) return refused('names a port that does not exist')
  if (HOST_NAME.test(name)) return { ok: true, value: { protocol, host: name, port } }
  if (!IPV4.test(written) && !isIPv6(written)) return refused('names a host that is no host name')
  return { ok: true, value: { protocol, host: written, port } }
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
