/**
 * TrackerOauthApi redirects browsers to the tracker's consent page and runs the two token requests with the secret.
 *
 * Only the port varies in the redirect address, so a code always goes to the caller's own machine. Callers receive three
 * token fields, whatever else the tracker returned.
 */
import type { Result } from '../core/result.ts'
import {
  type TrackerAuthorizeQuery,
  type TrackerRefreshRequest,
  type TrackerTokenRequest,
  TrackerTokens,
} from '../protocol/connect.ts'
import { CREDENTIAL_CHARS_MAX } from '../protocol/limits.ts'
import { createChecker } from '../protocol/parse.ts'
import { checkHeaders, json, type Reply, refusal } from '../transport/reply.ts'
import type { HelperSettings } from './settings.ts'
import { oauthError, type Upstream, type UpstreamAnswer, unexpectedAnswer } from './upstream.ts'

export interface TrackerOauthApi {
  authorize(query: TrackerAuthorizeQuery): Reply
  exchange(request: TrackerTokenRequest): Promise<Reply>
  refresh(request: TrackerRefreshRequest): Promise<Reply>
}

const TRACKER_NAME = 'the tracker'
const SCOPE = 'read,write'
const TOKEN = new RegExp(`^[!-~]{1,${CREDENTIAL_CHARS_MAX}}$`)

export function createTrackerOauthApi(
  settings: HelperSettings['tracker'],
  upstream: Upstream,
): TrackerOauthApi {
  const { clientId, clientSecret, authorizeUrl, tokenUrl } = settings
  const requestTokens = async (
    invalidGrantMessage: string,
    form: Readonly<Record<string, string>>,
  ): Promise<Reply> => {
    const identity = { client_id: clientId, client_secret: clientSecret }
    return tokenReply(
      await upstream.postForm(TRACKER_NAME, tokenUrl, { ...form, ...identity }),
      invalidGrantMessage,
    )
  }
  return {
    authorize({ state, port }) {
      const query = new URLSearchParams({
        client_id: clientId,
        redirect_uri: redirectUri(port),
        response_type: 'code',
        scope: SCOPE,
        state,
      })
      return redirectReply(`${authorizeUrl}?${query}`)
    },
    exchange: ({ code, port }) =>
      requestTokens(
        'the tracker does not accept this code; codes work once and for a short time: connect again',
        {
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri(port),
        },
      ),
    refresh: ({ refresh_token }) =>
      requestTokens('the tracker no longer accepts this refresh token; connect again', {
        grant_type: 'refresh_token',
        refresh_token,
      }),
  }
}

const redirectUri = (port: number): string => `http://localhost:${port}/api/connect/tracker/callback`

function redirectReply(location: string): Reply {
  const headers = checkHeaders([['location', location]])
  return { status: 302, type: 'text/plain; charset=utf-8', body: '', headers }
}

/** Only `invalid_grant` becomes a 401, because hosts disconnect the tracker on it. */
function tokenReply(answer: UpstreamAnswer, invalidGrantMessage: string): Reply {
  if (answer.is === 'no answer') return answer.reply
  if (answer.status >= 400 && answer.status < 500 && oauthError(answer.fields) === 'invalid_grant') {
    return refusal(401, invalidGrantMessage)
  }
  const tokens = answer.status === 200 ? readTokens(answer.fields) : undefined
  return tokens?.ok === true ? json(tokens.value) : unexpectedAnswer(TRACKER_NAME, answer)
}

const checkTokens = createChecker(TrackerTokens)

function readTokens(
  fields: Readonly<Record<string, unknown>>,
): Result<TrackerTokens> | { readonly ok: false } {
  const { access_token, refresh_token, expires_in } = fields
  if (typeof access_token !== 'string' || !TOKEN.test(access_token)) return { ok: false }
  return checkTokens({
    access_token,
    ...(typeof refresh_token === 'string' && TOKEN.test(refresh_token) ? { refresh_token } : {}),
    ...(typeof expires_in === 'number' && expires_in >= 0 ? { expires_in } : {}),
  })
}
