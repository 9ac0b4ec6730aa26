/**
 * The code host's device flow (RFC 8628) with the person's own client id.
 *
 * The helper passes the same fields on, so its client uses `readDeviceStart` and `readDevicePoll` too. Only an invalid
 * code ends a flow; an unreachable code host or an unreadable reply does not. The library oauth4webapi in the place of
 * the two readers loses "the error … is recognized" of `oauth-helper.test.ts`: such errors come with status 200.
 */

import type { DeviceAuthorization, DevicePollResult } from '../../core/ports/accounts.ts'
import type { Clock } from '../../core/ports/clock.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { DeviceCode, DeviceToken } from '../../protocol/connect.ts'
import { createChecker } from '../../protocol/parse.ts'
import type { Http, HttpReply } from '../http/http-types.ts'
import { tokenFormRequest } from '../http/token-form.ts'
import {
  fieldsIn,
  isCredential,
  isTooManyRequests,
  quoted,
  textAt,
  tooManyRequests,
  unexpectedStatus,
} from './reply-fields.ts'

const CLOUD_SITE = 'https://github.com'
const CLOUD_API = 'https://api.github.com'
const SCOPE = 'repo'
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const CHECK_URL_ADVICE = 'check that codehost.apiUrl is the address of the code host'

/** The standard's interval for a code host that names none. */
const DEFAULT_INTERVAL_SECONDS = 5

export async function startOwnDevice(
  http: Http,
  clock: Pick<Clock, 'now'>,
  config: ServiceConfig,
): Promise<Result<DeviceAuthorization>> {
  const form = { client_id: config.connect.codehostClientId ?? '', scope: SCOPE }
  const reply = await postForm(http, `${siteOf(config)}/login/device/code`, form)
  if (!reply.ok) return reply
  if (reply.value.status === 404) {
    return no('invalid', 'the code host does not know connect.codehostClientId; correct it')
  }
  return readDeviceStart('the code host', reply.value, clock.now(), CHECK_URL_ADVICE)
}

export async function pollOwnDevice(
  http: Http,
  clock: Pick<Clock, 'now'>,
  config: ServiceConfig,
  deviceCode: string,
): Promise<Result<DevicePollResult>> {
  const reply = await postForm(http, `${siteOf(config)}/login/oauth/access_token`, {
    client_id: config.connect.codehostClientId ?? '',
    device_code: deviceCode,
    grant_type: DEVICE_GRANT,
  })
  return reply.ok ? readDevicePoll('the code host', reply.value, clock.now(), CHECK_URL_ADVICE) : reply
}

/** Derives the address of the web pages from the address of the API. */
function siteOf({ codehost: { apiUrl = CLOUD_API } }: ServiceConfig): string {
  if (apiUrl.replace(/\/+$/, '') === CLOUD_API) return CLOUD_SITE
  const { protocol, host, hostname } = new URL(apiUrl)
  // On ghe.com the API has its own host name (`api.`); other enterprise servers have it below the site.
  const isApiSubdomain = hostname.startsWith('api.') && hostname.endsWith('.ghe.com')
  return `${protocol}//${isApiSubdomain ? host.slice('api.'.length) : host}`
}

function postForm(
  http: Http,
  url: string,
  form: Readonly<Record<string, string>>,
): Promise<Result<HttpReply>> {
  const secrets = form.device_code === undefined ? [] : [form.device_code]
  return http.send({ ...tokenFormRequest(url, form), secrets })
}

// ---- what the answers mean -----------------------------------------------------------------------------------------

const checkCode = createChecker(DeviceCode)
const checkToken = createChecker(DeviceToken)

export function readDeviceStart(
  service: string,
  reply: HttpReply,
  now: number,
  advice: string,
): Result<DeviceAuthorization> {
  if (isTooManyRequests(reply)) return tooManyRequests(service, reply, now)
  const fields = fieldsIn(reply.text)
  const failure = isOauthAnswer(reply) ? FAILURE_REASONS.get(textAt(fields, 'error') ?? '') : undefined
  if (failure !== undefined) return no('invalid', failure)
  if (reply.status !== 200) return unexpectedStatus(service, reply.status, advice)
  const checked = checkCode(fields)
  if (!checked.ok || !isSafePage(checked.value.verification_uri)) {
    return no('failed', `${service} returned no usable device code; ${advice}`)
  }
  const { device_code, user_code, verification_uri, expires_in, interval } = checked.value
  return yes({
    deviceCode: device_code,
    userCode: quoted(user_code),
    verificationUri: verification_uri,
    intervalSeconds: interval ?? DEFAULT_INTERVAL_SECONDS,
    expiresInSeconds: expires_in,
  })
}

export function readDevicePoll(
  service: string,
  reply: HttpReply,
  now: number,
  advice: string,
): Result<DevicePollResult> {
  if (isTooManyRequests(reply)) return tooManyRequests(service, reply, now)
  if (!isOauthAnswer(reply)) return unexpectedStatus(service, reply.status, advice)
  const checked = checkToken(fieldsIn(reply.text))
  if (!checked.ok) return no('failed', `${service} returned an unreadable reply; ${advice}`)
  const { access_token, error, interval } = checked.value
  if (isCredential(access_token)) return yes({ is: 'token', token: access_token })
  return error === undefined
    ? no('failed', `${service} returned no token; ${advice}`)
    : yes(pollForError(error, interval))
}

function pollForError(error: string, interval: number | undefined): DevicePollResult {
  if (error === 'authorization_pending') return { is: 'pending' }
  if (error === 'slow_down')
    return interval === undefined
      ? { is: 'pending', isTooFast: true }
      : { is: 'pending', intervalSeconds: interval }
  return {
    is: 'over',
    reason: FAILURE_REASONS.get(error) ?? `the code host refused (${quoted(error)}); connect again`,
  }
}

const WRONG_CLIENT =
  'the code host does not accept the client id; correct connect.codehostClientId, or remove it to use the helper'
const EXPIRED = 'the code expired before it was entered; connect again for a new one'

/** By OAuth error: why the flow failed, and what to do. */
const FAILURE_REASONS: ReadonlyMap<string, string> = new Map([
  ['expired_token', EXPIRED],
  ['token_expired', EXPIRED],
  ['access_denied', 'the authorization was refused on the page of the code host; connect again to retry'],
  ['incorrect_device_code', 'the code host does not know this code; connect again for a new one'],
  ['incorrect_client_credentials', WRONG_CLIENT],
  ['unauthorized_client', WRONG_CLIENT],
  ['unsupported_grant_type', 'the code host does not support the device flow; give a token instead'],
  [
    'device_flow_disabled',
    'the device flow of the application is disabled; enable Device Flow in its settings at the code host, or give a token',
  ],
])

/** GitHub sends OAuth errors with status 200; code hosts that follow the standard send 400. */
const isOauthAnswer = ({ status }: HttpReply): boolean => status === 200 || status === 400

/** Only pages that are safe to open with a click. */
function isSafePage(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, hostname, username, password } = new URL(address)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && /^(localhost|127\.[\d.]+)$/.test(hostname))
  return isSafe && username === '' && password === ''
}
