/**
 * Why a request brought no reply, in a sentence for a person.
 *
 * It names the place and never the path, the query, a header or a login: they may hold a secret, or what somebody
 * searched for.
 */
import { isNativeError } from 'node:util/types'
import { no, type Refused } from '../../core/result.ts'
import { HTTP_ANSWER_MS_MAX } from '../../protocol/limits.ts'
import { PRIVATE_ADDRESS, privateAddressRefusal } from './public-address-guard.ts'

const ERROR_CODE_CHARS_MAX = 60
const CONNECTION_CLOSED_CODES = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'])
const UNTRUSTED_CERTIFICATE = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
const PROXY_RESPONSE = /^Proxy response \((\d{3})\)/

/** @param proxy by whose way it was asked, as host and port */
export function connectionFailure(
  error: unknown,
  url: string,
  isTimeout: boolean,
  proxy: string | undefined,
): Refused {
  const host = hostInUrl(url)
  const viaProxy = proxy === undefined ? '' : ` by way of the proxy ${proxy}`
  if (isTimeout)
    return no(
      'failed',
      `${host} gave no answer${viaProxy} within ${HTTP_ANSWER_MS_MAX / 1000} s; ${CHECK_NETWORK}`,
    )
  const code = errorCodeOf(error)
  if (CONNECTION_CLOSED_CODES.has(code)) return stoppingRefusal(host)
  if (code === PRIVATE_ADDRESS) return privateAddressRefusal(host)
  if (code === 'UND_ERR_INVALID_ARG') {
    return no(
      'invalid',
      `${host} was not asked: the credential for it holds characters that may not be sent; enter it again`,
    )
  }
  const proxyStatus = PROXY_RESPONSE.exec(isNativeError(error) ? error.message : '')?.[1]
  if (proxyStatus !== undefined && proxy !== undefined) return proxyRefusal(host, proxy, proxyStatus)
  const advice = UNTRUSTED_CERTIFICATE.test(code)
    ? 'nobody whom this machine trusts vouches for its certificate; name its authority in NODE_EXTRA_CA_CERTS'
    : CHECK_NETWORK
  return no('failed', `${host} could not be reached${viaProxy} (${code}); ${advice}`)
}

export function stoppingRefusal(host: string): Refused {
  return no('unavailable', `${host} is not asked any more: this process is stopping`)
}

export function proxyRefusal(host: string, proxy: string, status: string): Refused {
  const advice =
    status === '407' ? 'give the proxy variable a user and password that it takes' : 'ask who runs it'
  return no('failed', `${host} could not be reached: the proxy ${proxy} answered ${status}; ${advice}`)
}

/** Without path and query. */
export function hostInUrl(url: string): string {
  return new URL(url).host
}

const CHECK_NETWORK = 'see that this machine has a way to it'

/** The outer error often says only that something failed. */
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
