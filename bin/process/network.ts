/**
 * Reads the machine's network settings: trusted certificate authorities and proxies.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'
import { no, type Result, yes } from '../../core/result.ts'
import { messageOf } from '../../protocol/message-of.ts'
import type { HttpOptions, ProxySettings } from '../../providers/http/http-types.ts'
import { parseProxy } from '../../providers/http/proxy-selection.ts'

type NetworkEnvironment = Readonly<Record<string, string | undefined>>

/** The usual files of the system's trusted authorities; the first existing file is used. */
const SYSTEM_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** The authorities of Node, of the system, and of the named file. */
export function readAuthorities(
  caFile: string | undefined,
  env: NetworkEnvironment,
): Result<readonly string[]> {
  const known = [...rootCertificates, ...readFirst([env.SSL_CERT_FILE, ...SYSTEM_FILES])]
  const extra = readFirst([env.NODE_EXTRA_CA_CERTS])
  if (caFile === undefined) return yes([...known, ...extra])
  try {
    const named = readFileSync(caFile, 'utf8')
    // Parse the file now, because a later TLS error would not name it.
    new X509Certificate(named)
    return yes([...known, ...extra, named])
  } catch (error) {
    return no('invalid', `--ca-file: ${caFile} is no certificate in PEM form: ${messageOf(error)}`)
  }
}

function readFirst(files: readonly (string | undefined)[]): string[] {
  for (const file of files) {
    const text = file === undefined || file === '' ? undefined : readText(file)
    if (text !== undefined) return [text]
  }
  return []
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** The proxies of the environment; undefined when none is set. Lower-case names win, as in other programs. */
export function readProxies(env: NetworkEnvironment): Result<ProxySettings | undefined> {
  const all = env.all_proxy ?? env.ALL_PROXY ?? ''
  const http = env.http_proxy ?? env.HTTP_PROXY ?? all
  const https = env.https_proxy ?? env.HTTPS_PROXY ?? all
  if (http === '' && https === '') return yes(undefined)
  const plain = normalizeProxy(http)
  const encrypted = normalizeProxy(https)
  if (!plain.ok) return plain
  if (!encrypted.ok) return encrypted
  return yes({ http: plain.value, https: encrypted.value, noProxy: env.no_proxy ?? env.NO_PROXY ?? '' })
}

/** Normalizes a proxy address: with a scheme, and with an encoded login. */
function normalizeProxy(text: string): Result<string> {
  if (text === '') return yes('')
  const proxy = parseProxy(text)
  if (!proxy.ok) return proxy
  const { url, login } = proxy.value
  url.username = encodeURIComponent(login?.user ?? '')
  url.password = encodeURIComponent(login?.password ?? '')
  return yes(url.href.replace(/\/$/, ''))
}

/** The network options of an HTTP client on this machine. */
export function readNetwork(
  env: NetworkEnvironment,
): Result<Pick<HttpOptions, 'proxies' | 'certificateAuthorities'>> {
  const trusted = readAuthorities(undefined, env)
  const proxySettings = readProxies(env)
  if (!trusted.ok) return trusted
  if (!proxySettings.ok) return proxySettings
  const proxies = proxySettings.value === undefined ? {} : { proxies: proxySettings.value }
  return yes({ certificateAuthorities: trusted.value, ...proxies })
}
