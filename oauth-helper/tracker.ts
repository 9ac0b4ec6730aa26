/**
 * The tracker's side of connecting: where the browser goes, and the two exchanges that need the client's secret.
 *
 * The redirect is a fixed template in which only a port number varies, so no code can be led to another machine than
 * the caller's own. What comes back to the caller are three fields, whatever else the tracker said.
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
import { json, type Reply, refusal, safe } from '../transport/reply.ts'
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
        'the tracker does not take this code; codes work once and for a short time: connect again',
        {
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri(port),
        },
      ),
    refresh: ({ refresh_token }) =>
      requestTokens('the tracker does not take this refresh token any more; connect again', {
        grant_type: 'refresh_token',
        refresh_token,
      }),
  }
}

const redirectUri = (port: number): string => `http://localhost:${port}/api/connect/tracker/callback`

function redirectReply(location: string): Reply {
  const headers = safe([['location', location]])
  return { status: 302, type: 'text/plain; charset=utf-8', body: '', headers }
}

/** Only the word that says that the grant itself is dead may cost anybody his connection. */
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
