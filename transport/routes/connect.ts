/** Routes for connecting accounts, in the order of the specification's table. */
import type { HostApi, RenderedCallbackPage } from '../../actors/api/host-api.ts'
import { htmlPage, json, type Reply, resultReply } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type ConnectRoute =
  | 'changeCredentials'
  | 'pollCodehost'
  | 'readStorage'
  | 'connectStorage'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'connectProvider'

export function connectHandlers(hostApi: HostApi): Pick<Handlers, ConnectRoute> {
  return {
    changeCredentials: async ({ body }) => resultReply(await hostApi.changeCredentials(body)),
    pollCodehost: async () => json(await hostApi.pollCodehost()),
    readStorage: async () => json(await hostApi.storage()),
    connectStorage: async () => resultReply(await hostApi.connectStorage()),
    trackerCallback: async ({ query }) => callbackReply(await hostApi.trackerCallback(query)),
    pasteTrackerAddress: async ({ body }) => resultReply(await hostApi.pasteTrackerAddress(body.address)),
    connectProvider: async ({ params }) => resultReply(await hostApi.connect(params.provider)),
  }
}

/** The page's address holds an authorization code, so no page opened from it may see the address. */
const ISOLATED = [
  [
    'content-security-policy',
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ],
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
] as const

const callbackReply = ({ status, html }: RenderedCallbackPage): Reply => htmlPage(status, html, ISOLATED)
