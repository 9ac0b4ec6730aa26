/** These functions ask an agent's vendor about a key and translate the reply. */
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import type { HttpReply } from '../../http/http-types.ts'
import {
  asFields,
  fieldsIn,
  isTooManyRequests,
  quoted,
  textAt,
  tooManyRequests,
  unexpectedStatus,
} from '../reply-fields.ts'
import type { AgentCheckPorts } from './agent-account.ts'

/** A second try, so that a short network failure is not shown to the person. */
const TRIES = 2
const CHECK_NETWORK_ADVICE = 'check that this machine can reach the vendor'

export const NO_KEY = no('invalid', 'there is no key to check; give one')

export function getFromVendor(
  { http }: Pick<AgentCheckPorts, 'http'>,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<Result<HttpReply>> {
  const commonHeaders = { accept: 'application/json', 'user-agent': 'switchyard' }
  return http.send({ method: 'GET', url, tries: TRIES, headers: { ...commonHeaders, ...headers } })
}

export interface CheckedKey {
  readonly vendor: string
  readonly key: string
}

export function keyCheckResult(
  { vendor, key }: CheckedKey,
  reply: HttpReply,
  { clock }: Pick<AgentCheckPorts, 'clock'>,
): Result<string> {
  if (reply.status === 200) return yes(`an API key of ${vendor}`)
  if (isTooManyRequests(reply)) return tooManyRequests(vendor, reply, clock.now())
  if (reply.status === 401 || reply.status === 403) return keyRefusal({ vendor, key }, reply)
  return unexpectedStatus(vendor, reply.status, CHECK_NETWORK_ADVICE)
}

/** Redacts the key from the vendor's reason, which may repeat it. */
export function keyRefusal({ vendor, key }: CheckedKey, reply: HttpReply): Refused {
  const reason = vendorReason(reply)?.replaceAll(key, '***')
  return no(
    'unauthorized',
    `${vendor} does not accept this key${reason === undefined ? '' : ` (${quoted(reason)})`}`,
  )
}

export function vendorReason(reply: HttpReply): string | undefined {
  return textAt(asFields(fieldsIn(reply.text)?.error), 'message')
}
