/** Connecting accounts, in the order of the specification's table. */
import type { CallbackPage, FrontDesk } from '../../actors/api/host-api.ts'
import { answered, json, page, type Reply } from '../reply.ts'
import type { Handlers } from './route-table.ts'

type ConnectRoute =
  | 'changeCredentials'
  | 'pollCodehost'
  | 'readStorage'
  | 'connectStorage'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'connectProvider'

export function connectHandlers(desk: FrontDesk): Pick<Handlers, ConnectRoute> {
  return {
    changeCredentials: async ({ body }) => answered(await desk.changeCredentials(body)),
    pollCodehost: async () => json(await desk.pollCodehost()),
    readStorage: async () => json(await desk.storage()),
    connectStorage: async () => answered(await desk.connectStorage()),
    trackerCallback: async ({ query }) => shown(await desk.trackerCallback(query)),
    pasteTrackerAddress: async ({ body }) => answered(await desk.pasteTrackerAddress(body.address)),
    connectProvider: async ({ params }) => answered(await desk.connect(params.provider)),
  }
}

/** The address that led here holds a code: no page that is opened from this one may hear of it. */
const SHUT_IN = [
  [
    'content-security-policy',
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ],
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
] as const

const shown = ({ status, html }: CallbackPage): Reply => page(status, html, SHUT_IN)
