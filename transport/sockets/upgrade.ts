/**
 * Admits or refuses a WebSocket upgrade.
 *
 * An upgrade passes the same checks as any request, and is refused with the same plain HTTP replies.
 */
import type { Log } from '../../core/ports/log.ts'
import type { Parsed } from '../../protocol/parse.ts'
import { framingError } from '../body.ts'
import type { ListenerRequest, ListenerResponse, UpgradeContext } from '../listener-port.ts'
import { type Headers, type Reply, refusal, send, sendAndClose } from '../reply.ts'
import type { AdmissionCheck } from '../request-checks.ts'
import type { RequestCounter } from '../request-counter.ts'
import { announcesBody, type RequestHead, readHead } from '../request-head.ts'
import { decodeParams, percentDecode, type RouteMatch, type Router } from '../router.ts'
import type { RouteParameters, ServedRoute } from '../routes/route-table.ts'

export type Upgrade = (response: ListenerResponse, request: ListenerRequest, context: UpgradeContext) => void

/**
 * Returns the user data of the new socket, or a refusal.
 *
 * @param params the path's parameters, checked by the route
 * @param address the remote address as the library writes it
 */
export type AdmitSocket = (
  params: unknown,
  head: RequestHead,
  address: () => ArrayBuffer,
) => { readonly ok: true; readonly data: object } | { readonly ok: false; readonly reply: Reply }

export interface UpgradeOptions {
  readonly admit: AdmissionCheck
  readonly route: Router<ServedRoute>
  readonly counter: RequestCounter
  readonly log: Log
}

const INTERNAL_ERROR = refusal(500, 'the service failed on this request; its log says why')

export function createUpgrade(
  { admit, route, counter, log }: UpgradeOptions,
  admitSocket: AdmitSocket,
): Upgrade {
  return (response, request, context) => {
    const head = readHead(request)
    const found = route(head.path)
    const row = found?.path.byMethod.get(head.method)
    const fault = announcesBody(head) ? 'an upgrade has no body' : framingError(head)
    if (fault !== undefined) {
      counter.count(row, 400)
      sendAndClose(response, refusal(400, fault))
      return
    }
    const { refused, cors, data } = decide()
    if (data === undefined) {
      counter.count(row, refused.status)
      send(response, refused, cors)
      return
    }
    // Accept no subprotocol and no extension, so there is no compression.
    response.upgrade(data, request.getHeader('sec-websocket-key'), '', '', context)

    /** Never throws, because the library ends the process when a callback throws. */
    function decide(): UpgradeDecision {
      try {
        const { refused, cors } = admit(head, found, row)
        if (refused !== undefined) return { refused, cors }
        const placed = readSocketParameters(found, head.query)
        if (!placed.ok) return { refused: refusal(400, placed.error), cors }
        const seated = admitSocket(placed.value.params, head, () => response.getRemoteAddressAsText())
        return seated.ok ? { data: seated.data } : { refused: seated.reply, cors }
      } catch (err) {
        log.error({ err }, 'could not answer an upgrade')
        return { refused: INTERNAL_ERROR }
      }
    }
  }
}

function readSocketParameters(
  found: RouteMatch<ServedRoute> | undefined,
  query: string,
): Parsed<RouteParameters> {
  const row = found?.path.byMethod.get('GET')
  const params = found === undefined ? undefined : decodeParams(found)
  if (row === undefined || params === undefined || percentDecode(query) === undefined)
    return { ok: false, error: 'the path or the query is not valid percent-encoded UTF-8' }
  return row.readParameters(params, query)
}

type UpgradeDecision =
  | { readonly data: object; readonly refused?: undefined; readonly cors?: undefined }
  | { readonly data?: undefined; readonly refused: Reply; readonly cors?: Headers | undefined }

/** All sockets of one kind on one listener. */
export interface SocketGroup {
  count(): number
  /** Closes each socket; a socket that does not read the close frame is terminated after `DRAIN_MS_MAX`. */
  closeAll(code: number, reason: string): void
  /** Stops listening to the host API. */
  stop(): void
}
