/**
 * HelperClient calls the OAuth helper, which holds the client ids and the secret, so no person registers an application.
 * The helper may be public or run in a company's private network.
 *
 * A refresh token counts as invalid only when the helper itself reports so in its own format. Any other 401, such as a
 * captive portal's, must not disconnect the tracker. Requests are never repeated: a grant used up by a lost reply would
 * be refused.
 */

import type {
  DeviceAuthorization,
  DevicePollResult,
  RedirectAuthorization,
  TokenPair,
} from '../../core/ports/accounts.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { redactSecrets } from '../../core/redact-secrets.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { TrackerTokens } from '../../protocol/connect.ts'
import { createChecker } from '../../protocol/parse.ts'
import { type HelperRouteName, helperRoutes } from '../../protocol/routes.ts'
import type { HttpReply } from '../http/http-types.ts'
import { readDevicePoll, readDeviceStart } from './device.ts'
import {
  fieldsIn,
  isCredential,
  isTooManyRequests,
  quoted,
  type TokenClient,
  textAt,
  tooManyRequests,
  unexpectedStatus,
} from './reply-fields.ts'

/** The helper address of this build; undefined while no public helper exists. */
export const DEFAULT_HELPER_BASE_URL: string | undefined = undefined

export interface HelperClient {
  authorize(order: { readonly state: string; readonly port: number }): RedirectAuthorization
  exchange(order: { readonly code: string; readonly port: number }): Promise<Result<TokenPair>>
  refresh(refreshToken: string): Promise<Result<TokenPair>>
  startDevice(): Promise<Result<DeviceAuthorization>>
  pollDevice(deviceCode: string): Promise<Result<DevicePollResult>>
}

const HELPER_NAME = 'the OAuth helper'
const CHECK_HELPER_URL_ADVICE = 'check that connect.apiBase is the address of an OAuth helper'
/** A century; longer lifetimes from outside would exceed the range of dates. */
const SECONDS_MAX = 3_155_760_000

/** Refused (`invalid`) when there is no helper. `cure`: what else the person can do. */
export function createHelperClient(
  config: ServiceConfig,
  alternative: string,
  { http, clock }: { readonly http: TokenClient; readonly clock: Pick<Clock, 'now'> },
  defaultBaseUrl: string | undefined = DEFAULT_HELPER_BASE_URL,
): Result<HelperClient> {
  const baseUrl = helperBaseUrl(config.connect.apiBase, defaultBaseUrl)
  if (baseUrl === undefined) {
    return no(
      'invalid',
      `no OAuth helper is configured: ${alternative}, or set connect.apiBase to the address of a helper`,
    )
  }
  const request = async (route: HelperRouteName, body?: Readonly<Record<string, unknown>>) =>
    readHelperReply(await postToHelper(http, `${baseUrl}${helperRoutes[route].path}`, body), clock.now())
  return yes({
    authorize: ({ state, port }) => {
      const query = new URLSearchParams({ state, port: String(port) })
      return { url: `${baseUrl}${helperRoutes.authorizeTracker.path}?${query}` }
    },
    exchange: async ({ code, port }) =>
      readTokens(await request('exchangeTracker', { code, port }), clock.now()),
    refresh: async (refreshToken) =>
      readTokens(await request('refreshTracker', { refresh_token: refreshToken }), clock.now()),
    startDevice: async () => {
      const reply = await request('startDevice')
      return reply.ok
        ? readDeviceStart(HELPER_NAME, reply.value, clock.now(), CHECK_HELPER_URL_ADVICE)
        : reply
    },
    pollDevice: async (deviceCode) => {
      const reply = await request('pollDevice', { device_code: deviceCode })
      return reply.ok ? readDevicePoll(HELPER_NAME, reply.value, clock.now(), CHECK_HELPER_URL_ADVICE) : reply
    },
  })
}

function helperBaseUrl(
  configured: string | undefined,
  defaultBaseUrl: string | undefined,
): string | undefined {
  const chosen = configured === undefined || configured === '' ? defaultBaseUrl : configured
  if (chosen === undefined) return undefined
  const { origin, pathname } = new URL(chosen)
  return `${origin}${pathname}`.replace(/\/+$/, '')
}

async function postToHelper(
  http: TokenClient,
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
  return reply.ok ? yes(redactSent(reply.value, body ?? {})) : reply
}

/** Redacts the sent secrets from the reply. Only a refresh may return one: a refresh token that stays valid. */
function redactSent(reply: HttpReply, body: Readonly<Record<string, unknown>>): HttpReply {
  if (reply.status === 200 && body.refresh_token !== undefined) return reply
  const { code, device_code, refresh_token } = body
  const secrets = [code, device_code, refresh_token].filter((value) => typeof value === 'string')
  return { ...reply, text: redactSecrets(reply.text, secrets) }
}

/** Turns rate limits and outages of the helper, or of the service behind it, into refusals. */
function readHelperReply(reply: Result<HttpReply>, now: number): Result<HttpReply> {
  if (!reply.ok) return reply
  if (isTooManyRequests(reply.value)) return tooManyRequests(HELPER_NAME, reply.value, now)
  const { status, text } = reply.value
  const reason = status >= 500 ? textAt(fieldsIn(text), 'error') : undefined
  return reason === undefined ? reply : no('unavailable', `${HELPER_NAME}: ${quoted(reason)}`)
}

const checkTokens = createChecker(TrackerTokens)

function readTokens(reply: Result<HttpReply>, now: number): Result<TokenPair> {
  if (!reply.ok) return reply
  const { status, text } = reply.value
  const fields = fieldsIn(text)
  const reason = textAt(fields, 'error')
  if (status === 401 && reason !== undefined) return no('unauthorized', quoted(reason))
  if (status !== 200) return unexpectedStatus(HELPER_NAME, status, CHECK_HELPER_URL_ADVICE)
  const checked = checkTokens(fields)
  if (!checked.ok || !isCredential(checked.value.access_token)) {
    return no('failed', `${HELPER_NAME} returned no token; ${CHECK_HELPER_URL_ADVICE}`)
  }
  return yes(toTokenPair(checked.value, now))
}

function toTokenPair({ access_token, refresh_token, expires_in }: TrackerTokens, now: number): TokenPair {
  const lifetimeSeconds = expires_in === undefined ? undefined : Math.min(expires_in, SECONDS_MAX)
  return {
    accessToken: access_token,
    ...(isCredential(refresh_token) ? { refreshToken: refresh_token } : {}),
    ...(lifetimeSeconds === undefined
      ? {}
      : { expiresAt: new Date(now + lifetimeSeconds * 1000).toISOString() }),
  }
}
