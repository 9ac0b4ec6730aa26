/**
 * The code host's device flow with the helper's client id. It needs no secret, so all there is to do is to ask, and to
 * pass the code host's own fields on: that nobody has confirmed yet is an answer, too.
 */
import { DeviceCode, DeviceToken, type DeviceTokenRequest } from '../protocol/connect.ts'
import { checker } from '../protocol/parse.ts'
import { json, type Reply } from '../transport/reply.ts'
import type { HelperSettings } from './settings.ts'
import { errorWord, type Heard, strange, type Upstream } from './upstream.ts'

export interface CodehostDesk {
  startDevice(): Promise<Reply>
  pollDevice(wish: DeviceTokenRequest): Promise<Reply>
}

const WHO = 'the code host'
/** Pull requests in private repositories; and branches that change what the code host itself runs. */
const SCOPE = 'repo workflow'
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

export function codehostDesk(
  { clientId, site }: HelperSettings['codehost'],
  upstream: Upstream,
): CodehostDesk {
  const post = (path: string, form: Readonly<Record<string, string>>) =>
    upstream.post(WHO, `${site}/login/${path}`, { client_id: clientId, ...form })
  return {
    startDevice: async () => replyTo(await post('device/code', { scope: SCOPE }), isDeviceCode),
    pollDevice: async ({ device_code }) =>
      replyTo(
        await post('oauth/access_token', { device_code, grant_type: DEVICE_GRANT }),
        (fields) => isDeviceToken(fields) && (hasToken(fields) || errorWord(fields) !== undefined),
      ),
  }
}

const checkCode = checker(DeviceCode)
const checkToken = checker(DeviceToken)
const isDeviceCode = (fields: Fields): boolean => checkCode(fields).ok
const isDeviceToken = (fields: Fields): boolean => checkToken(fields).ok
const hasToken = ({ access_token }: Fields): boolean => typeof access_token === 'string'

type Fields = Readonly<Record<string, unknown>>

/** The code host says most of its refusals with status 200; others of its kind use 400, as the standard does. */
function replyTo(heard: Heard, isExpected: (fields: Fields) => boolean): Reply {
  if (heard.is === 'nothing') return heard.reply
  const isAnswer = heard.status === 200 || heard.status === 400
  return isAnswer && isExpected(heard.fields) ? json(heard.fields) : strange(WHO, heard)
}
