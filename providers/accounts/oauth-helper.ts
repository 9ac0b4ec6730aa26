/**
 * The helper, as a host sees it: it holds the client ids and the secret, so that nobody has to register an application
 * of his own. It may be a public one, or a company's on its private network, as self-hosted code hosts are.
 *
 * A refresh token counts as dead only when the helper itself says so in its own form: whatever else stands in the way
 * and answers 401, such as a network that wants a login first, must not cost anybody his connection. Nothing is asked
 * twice, for a grant that was used up by an answer that got lost would be refused.
 */

import type { Clock } from '../../core/ports.ts'
import type { DevicePoll, DeviceStart, Journey, TokenPair } from '../../core/provider-ports.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TrackerTokens } from '../../protocol/connect.ts'
import { checker } from '../../protocol/parse.ts'
import { type HelperRouteName, helperRoutes } from '../../protocol/routes.ts'
import type { HttpReply } from '../http/http.ts'
import { pollOf, startedOf } from './device.ts'
import { fieldsIn, isCredential, isTooOften, said, textAt, tooOften, unexpected } from './reply-fields.ts'
import type { TokenDoor } from './token-request.ts'

/** Where this build's own helper is; undefined while nobody runs one for it. */
export const DEFAULT_API_BASE: string | undefined = undefined

export interface HelperClient {
  authorize(order: { readonly state: string; readonly port: number }): Journey
  exchange(order: { readonly code: string; readonly port: number }): Promise<Result<TokenPair>>
  refresh(refreshToken: string): Promise<Result<TokenPair>>
  startDevice(): Promise<Result<DeviceStart>>
  pollDevice(deviceCode: string): Promise<Result<DevicePoll>>
}

const WHO = 'the OAuth helper'
const CURE = 'see that connect.apiBase is the address of an OAuth helper'
/** A century: what a stranger says beyond that is no instant. */
const SECONDS_MAX = 3_155_760_000

/** Refused (`invalid`) when there is no helper. `cure`: what else the person can do. */
export function helperFor(
  config: ServiceConfig,
  cure: string,
  { http, clock }: { readonly http: TokenDoor; readonly clock: Pick<Clock, 'now'> },
  ownBase: string | undefined = DEFAULT_API_BASE,
): Result<HelperClient> {
  const base = baseOf(config.connect.apiBase, ownBase)
  if (base === undefined) {
    return no(
      'invalid',
      `no OAuth helper is configured: ${cure}, or set connect.apiBase to the address of a helper`,
    )
  }
  const ask = async (route: HelperRouteName, body?: Readonly<Record<string, unknown>>) =>
    heard(await asked(http, `${base}${helperRoutes[route].path}`, body), clock.now())
  return yes({
    authorize: ({ state, port }) => {
      const query = new URLSearchParams({ state, port: String(port) })
      return { url: `${base}${helperRoutes.authorizeTracker.path}?${query}` }
    },
    exchange: async ({ code, port }) => tokensOf(await ask('exchangeTracker', { code, port }), clock.now()),
    refresh: async (refreshToken) =>
      tokensOf(await ask('refreshTracker', { refresh_token: refreshToken }), clock.now()),
    startDevice: async () => {
      const reply = await ask('startDevice')
      return reply.ok ? startedOf(WHO, reply.value, clock.now(), CURE) : reply
    },
    pollDevice: async (deviceCode) => {
      const reply = await ask('pollDevice', { device_code: deviceCode })
      return reply.ok ? pollOf(WHO, reply.value, clock.now(), CURE) : reply
    },
  })
}

function baseOf(configured: string | undefined, own: string | undefined): string | undefined {
  const given = configured === undefined || configured === '' ? own : configured
  if (given === undefined) return undefined
  const { origin, pathname } = new URL(given)
  return `${origin}${pathname}`.replace(/\/+$/, '')
}

async function asked(
  http: TokenDoor,
  url: string,
  body: Readonly<Record<string, unknown>> | undefined,
): Promise<Result<HttpReply>> {
  const reply = await http.send({
    method: 'POST',
    url,
    tries: 1,
    headers: {
      accept: 'application/json',
      'user-agent': 'switchyard',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return reply.ok ? yes(withoutWhatWasSent(reply.value, body ?? {})) : reply
}

/** A refresh token that stays good comes back with the new pair; nothing else has a reason to repeat a secret. */
function withoutWhatWasSent(reply: HttpReply, body: Readonly<Record<string, unknown>>): HttpReply {
  if (reply.status === 200 && body.refresh_token !== undefined) return reply
  const { code, device_code, refresh_token } = body
  const secrets = [code, device_code, refresh_token].filter((one) => typeof one === 'string')
  return { ...reply, text: redactSecrets(reply.text, secrets) }
}

/** What the helper says of itself or of the service behind it, before it is asked what the answer is. */
function heard(reply: Result<HttpReply>, now: number): Result<HttpReply> {
  if (!reply.ok) return reply
  if (isTooOften(reply.value)) return tooOften(WHO, reply.value, now)
  const { status, text } = reply.value
  const why = status >= 500 ? textAt(fieldsIn(text), 'error') : undefined
  return why === undefined ? reply : no('unavailable', `${WHO}: ${said(why)}`)
}

const checkTokens = checker(TrackerTokens)

function tokensOf(reply: Result<HttpReply>, now: number): Result<TokenPair> {
  if (!reply.ok) return reply
  const { status, text } = reply.value
  const fields = fieldsIn(text)
  const why = textAt(fields, 'error')
  if (status === 401 && why !== undefined) return no('unauthorized', said(why))
  if (status !== 200) return unexpected(WHO, status, CURE)
  const checked = checkTokens(fields)
  if (!checked.ok || !isCredential(checked.value.access_token)) {
    return no('failed', `${WHO} gave no token; ${CURE}`)
  }
  return yes(pairOf(checked.value, now))
}

function pairOf({ access_token, refresh_token, expires_in }: TrackerTokens, now: number): TokenPair {
  const lasts = expires_in === undefined ? undefined : Math.min(expires_in, SECONDS_MAX)
  return {
    accessToken: access_token,
    ...(isCredential(refresh_token) ? { refreshToken: refresh_token } : {}),
    ...(lasts === undefined ? {} : { expiresAt: new Date(now + lasts * 1000).toISOString() }),
  }
}
