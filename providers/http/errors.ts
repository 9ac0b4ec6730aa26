/**
 * Why a request brought no reply, in a sentence for a person.
 *
 * It names the place and never the path, the query, a header or a login: they may hold a secret, or what somebody
 * searched for.
 */
import { isNativeError } from 'node:util/types'
import { no, type Refused } from '../../core/result.ts'
import { HTTP_ANSWER_MS_MAX } from '../../protocol/limits.ts'
import { leadsInside, PRIVATE_ADDRESS } from './public-address-guard.ts'

const CODE_CHARS_MAX = 60
const ENDED = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'])
const UNVOUCHED = /CERT|SIGNATURE|SELF_SIGNED|ISSUER/
const TUNNEL = /^Proxy response \((\d{3})\)/

/** @param proxy by whose way it was asked, as host and port */
export function failureOf(error: unknown, url: string, isLate: boolean, proxy: string | undefined): Refused {
  const place = placeOf(url)
  const way = proxy === undefined ? '' : ` by way of the proxy ${proxy}`
  if (isLate)
    return no('failed', `${place} gave no answer${way} within ${HTTP_ANSWER_MS_MAX / 1000} s; ${SEE_WAY}`)
  const code = codeOf(error)
  if (ENDED.has(code)) return stopping(place)
  if (code === PRIVATE_ADDRESS) return leadsInside(place)
  if (code === 'UND_ERR_INVALID_ARG') {
    return no(
      'invalid',
      `${place} was not asked: the credential for it holds characters that may not be sent; enter it again`,
    )
  }
  const tunnel = TUNNEL.exec(isNativeError(error) ? error.message : '')?.[1]
  if (tunnel !== undefined && proxy !== undefined) return proxyRefusal(place, proxy, tunnel)
  const cure = UNVOUCHED.test(code)
    ? 'nobody whom this machine trusts vouches for its certificate; name its authority in NODE_EXTRA_CA_CERTS'
    : SEE_WAY
  return no('failed', `${place} could not be reached${way} (${code}); ${cure}`)
}

export function stopping(place: string): Refused {
  return no('unavailable', `${place} is not asked any more: this process is stopping`)
}

export function proxyRefusal(place: string, proxy: string, status: string): Refused {
  const cure =
    status === '407' ? 'give the proxy variable a user and password that it takes' : 'ask who runs it'
  return no('failed', `${place} could not be reached: the proxy ${proxy} answered ${status}; ${cure}`)
}

/** Without path and query. */
export function placeOf(url: string): string {
  return new URL(url).host
}

const SEE_WAY = 'see that this machine has a way to it'

/** The outer error often says only that something failed. */
function codeOf(error: unknown): string {
  for (let at = error, depth = 0; isNativeError(at) && depth < 3; at = at.cause, depth++) {
    if ('code' in at && typeof at.code === 'string') return at.code.slice(0, CODE_CHARS_MAX)
  }
  return 'no code'
}
