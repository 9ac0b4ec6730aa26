/**
 * These functions turn a failed connection into a refusal whose message a person can act on.
 *
 * Messages name the host only. Path, query, headers and logins may hold a secret or a search text and never appear.
 */
import { isNativeError } from 'node:util/types'
import { no, type Refused } from '../../core/result.ts'
import { HTTP_ANSWER_MS_MAX } from '../../protocol/limits.ts'
import { PRIVATE_ADDRESS, privateAddressRefusal } from './public-address-guard.ts'

const ERROR_CODE_CHARS_MAX = 60
const CONNECTION_CLOSED_CODES = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'])
const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
const PROXY_RESPONSE = /^Proxy response \((\d{3})\)/

/** @param proxy the host and port of the proxy that was used, if any */
export function connectionFailure(
  error: unknown,
  url: string,
  isTimeout: boolean,
  proxy: string | undefined,
): Refused {
  const host = hostInUrl(url)
  const viaProxy = proxy === undefined ? '' : ` through the proxy ${proxy}`
  if (isTimeout)
    return no(
      'failed',
      `${host} did not answer${viaProxy} within ${HTTP_ANSWER_MS_MAX / 1000} s; ${CHECK_NETWORK}`,
    )
  const code = errorCodeOf(error)
  if (CONNECTION_CLOSED_CODES.has(code)) return stoppingRefusal(host)
  if (code === PRIVATE_ADDRESS) return privateAddressRefusal(host)
  if (code === 'UND_ERR_INVALID_ARG') {
    return no(
      'invalid',
      `${host} received no request: its credential holds characters that may not be sent; enter the credential again`,
    )
  }
  const proxyStatus = PROXY_RESPONSE.exec(isNativeError(error) ? error.message : '')?.[1]
  if (proxyStatus !== undefined && proxy !== undefined) return proxyRefusal(host, proxy, proxyStatus)
  const advice = UNTRUSTED_CERTIFICATE.test(code)
    ? 'this machine does not trust its certificate; name the certificate authority in NODE_EXTRA_CA_CERTS'
    : CHECK_NETWORK
  return no('failed', `${host} could not be reached${viaProxy} (${code}); ${advice}`)
}

export function stoppingRefusal(host: string): Refused {
  return no('unavailable', `${host} gets no more requests: this process is stopping`)
}

export function proxyRefusal(host: string, proxy: string, status: string): Refused {
  const advice =
    status === '407' ? 'put a valid user and password into the proxy variable' : 'ask its operator'
  return no('failed', `${host} could not be reached: the proxy ${proxy} answered ${status}; ${advice}`)
}

/** Returns host and port, without path and query. */
export function hostInUrl(url: string): string {
  return new URL(url).host
}

const CHECK_NETWORK = 'check the network connection of this machine'

/** Returns the first error code in the chain of causes; the outer error often has none. */
function errorCodeOf(error: unknown): string {
  for (
    let current = error, depth = 0;
    isNativeError(current) && depth < 3;
    current = current.cause, depth++
  ) {
    if ('code' in current && typeof current.code === 'string')
      return current.code.slice(0, ERROR_CODE_CHARS_MAX)
  }
  return 'no code'
}
