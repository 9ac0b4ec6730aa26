/**
 * CodehostApi runs the code host's device flow with the helper's client id.
 *
 * The flow needs no client secret. The helper passes the code host's fields on unchanged, including OAuth errors such
 * as `authorization_pending`.
 */
import { DeviceCode, DeviceToken, type DeviceTokenRequest } from '../protocol/connect.ts'
import { createChecker } from '../protocol/parse.ts'
import { json, type Reply } from '../transport/reply.ts'
import type { HelperSettings } from './settings.ts'
import { oauthError, type Upstream, type UpstreamAnswer, unexpectedAnswer } from './upstream.ts'

export interface CodehostApi {
  startDevice(): Promise<Reply>
  pollDevice(request: DeviceTokenRequest): Promise<Reply>
}

const CODEHOST_NAME = 'the code host'
/** `repo` for pull requests in private repositories; `workflow` for branches that change workflow files. */
const SCOPE = 'repo'
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

export function createCodehostApi(
  { clientId, site }: HelperSettings['codehost'],
  upstream: Upstream,
): CodehostApi {
  const postForm = (path: string, form: Readonly<Record<string, string>>) =>
    upstream.postForm(CODEHOST_NAME, `${site}/login/${path}`, { client_id: clientId, ...form })
  return {
    startDevice: async () => codehostReply(await postForm('device/code', { scope: SCOPE }), isDeviceCode),
    pollDevice: async ({ device_code }) =>
      codehostReply(
        await postForm('oauth/access_token', { device_code, grant_type: DEVICE_GRANT }),
        (fields) => isDeviceToken(fields) && (hasToken(fields) || oauthError(fields) !== undefined),
      ),
  }
}

const checkCode = createChecker(DeviceCode)
const checkToken = createChecker(DeviceToken)
const isDeviceCode = (fields: AnswerFields): boolean => checkCode(fields).ok
const isDeviceToken = (fields: AnswerFields): boolean => checkToken(fields).ok
const hasToken = ({ access_token }: AnswerFields): boolean => typeof access_token === 'string'

type AnswerFields = Readonly<Record<string, unknown>>

/** GitHub sends most OAuth errors with status 200; code hosts that follow the standard use 400. */
function codehostReply(answer: UpstreamAnswer, isExpected: (fields: AnswerFields) => boolean): Reply {
  if (answer.is === 'no answer') return answer.reply
  const isAnswer = answer.status === 200 || answer.status === 400
  return isAnswer && isExpected(answer.fields) ? json(answer.fields) : unexpectedAnswer(CODEHOST_NAME, answer)
}
