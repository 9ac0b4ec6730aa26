/**
 * selectProxy decides through which proxy a request leaves this network.
 *
 * The rules are curl's: each scheme has its own proxy, and an exception is a name (with all its subdomains), an address,
 * a range of addresses, any of them with a port, or `*`. In addition, this machine is always contacted directly: a
 * credential that may travel there unencrypted must not pass through a proxy.
 */
import { BlockList, isIP } from 'node:net'
import { no, type Result, yes } from '../../core/result.ts'
import type { ProxySettings } from './http-types.ts'

export interface ProxyAddress {
  /** The proxy's address without the login. */
  readonly url: URL
  readonly login?: { readonly user: string; readonly password: string }
}

/** Returns undefined for a direct connection. */
export function selectProxy(
  target: URL,
  proxies: ProxySettings | undefined,
): Result<ProxyAddress | undefined> {
  const text = proxies?.[target.protocol === 'https:' ? 'https' : 'http'] ?? ''
  if (text === '' || isLocalTarget(target) || isExempt(target, proxies?.noProxy ?? '')) return yes(undefined)
  return parseProxy(text)
}

/** Parses a proxy address. An address without a scheme is an http proxy, as in other programs. */
export function parseProxy(text: string): Result<ProxyAddress> {
  const withScheme = text.includes('://') ? text : `http://${text}`
  const url = URL.canParse(withScheme) ? new URL(withScheme) : undefined
  // The message must not show the address, which may hold a password.
  if (url === undefined || url.hostname === '' || !/^(https?|socks5?):$/.test(url.protocol)) {
    return no(
      'invalid',
      'the proxy that the environment names (https_proxy, http_proxy, all_proxy) is not of the form http://host:port',
    )
  }
  const { username, password } = url
  url.username = ''
  url.password = ''
  if (username === '' && password === '') return yes({ url })
  return yes({ url, login: { user: decodePercent(username), password: decodePercent(password) } })
}

/** Returns the text unchanged when a password holds a literal %. */
function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

// ---- exceptions ----------------------------------------------------------------------------------------------------

function isLocalTarget(target: URL): boolean {
  const host = hostOf(target)
  return /^(.+\.)?localhost$|^127\.|^0\.0\.0\.0$|^::1?$|^::ffff:7f/.test(host)
}

function isExempt(target: URL, noProxy: string): boolean {
  const host = hostOf(target)
  const port = target.port === '' ? (target.protocol === 'https:' ? '443' : '80') : target.port
  return noProxy.split(/[\s,]+/).some((rule) => rule !== '' && matchesRule(rule.toLowerCase(), host, port))
}

const RULE = /^(?:\[(?<bracketed>[^\]]+)\]|(?<plain>.*?))(?::(?<port>\d+))?$/

function matchesRule(rule: string, host: string, port: string): boolean {
  if (rule === '*') return true
  // An IPv6 address may stand without brackets; its last group is no port.
  const isBareIpv6 = isIP(rule.split('/')[0] ?? '') === 6
  const parts = isBareIpv6 ? { plain: rule } : RULE.exec(rule)?.groups
  if (parts?.port !== undefined && parts.port !== port) return false
  const name = (parts?.bracketed ?? parts?.plain ?? '').replace(/^\*?\./, '').replace(/\.$/, '')
  if (isIP(host) !== 0) return matchesAddressRule(name, host)
  return name !== '' && (host === name || host.endsWith(`.${name}`))
}

function matchesAddressRule(name: string, host: string): boolean {
  const [address = '', bits] = name.split('/')
  const family = isIP(address)
  if (family === 0 || family !== isIP(host)) return false
  const longest = family === 6 ? 128 : 32
  const prefix = bits === undefined ? longest : Number(bits)
  if (!Number.isInteger(prefix) || prefix < 0 || prefix > longest) return false
  const type = family === 6 ? 'ipv6' : 'ipv4'
  const range = new BlockList()
  range.addSubnet(address, prefix, type)
  return range.check(host, type)
}

/** Returns the host in lower case, without brackets and without the trailing dot of the DNS root. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}
