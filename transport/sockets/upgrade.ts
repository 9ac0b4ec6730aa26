/**
 * The last word before a connection becomes a socket.
 *
 * A socket passes the same fences as any request and is refused in the same words, as plain HTTP, while it is none.
 */
import type { HttpRequest, HttpResponse, us_socket_context_t } from 'uWebSockets.js'
import type { Log } from '../../core/ports.ts'
import type { Parsed } from '../../protocol/parse.ts'
import { type Headers, type Reply, refusal, send } from '../reply.ts'
import type { Admit } from '../request-checks.ts'
import type { Tally } from '../request-counter.ts'
import { queryOf, readHead } from '../request-head.ts'
import { decodeParams, type Found, type Router } from '../router.ts'
import type { Placed, Row } from '../routes/route-table.ts'

export type Upgrade = (response: HttpResponse, request: HttpRequest, context: us_socket_context_t) => void

/** What the socket will carry, or why there is no place for one more. `params`: of its path, as the row's schema has them. */
export type Seat = (
  params: unknown,
) => { readonly ok: true; readonly data: object } | { readonly ok: false; readonly reply: Reply }

export interface UpgradeParts {
  readonly admit: Admit
  readonly route: Router<Row>
  readonly tally: Tally
  readonly log: Log
}

const OUR_FAULT = refusal(500, 'the service failed on this request; its log says why')

export function upgradeDoor({ admit, route, tally, log }: UpgradeParts, seat: Seat): Upgrade {
  return (response, request, context) => {
    const head = readHead(request)
    const found = route(head.path)
    const { refused, cors, data } = decide()
    if (data === undefined) {
      tally.count(found?.place.byMethod.get(head.method), refused.status)
      send(response, refused, cors)
      return
    }
    // Neither a protocol nor an extension is agreed to: no compression, whatever the client offers.
    response.upgrade(data, request.getHeader('sec-websocket-key'), '', '', context)

    /** Nothing may escape from here: the listener ends the process over an exception in a callback of its own. */
    function decide(): Decided {
      try {
        const { refused, cors } = admit(head, found, () => queryOf(request))
        if (refused !== undefined) return { refused, cors }
        const placed = placeOf(found)
        if (!placed.ok) return { refused: refusal(400, placed.error), cors }
        const seated = seat(placed.value.params)
        return seated.ok ? { data: seated.data } : { refused: seated.reply, cors }
      } catch (err) {
        log.error({ err }, 'an upgrade could not be answered')
        return { refused: OUR_FAULT }
      }
    }
  }
}

/** The query of a socket is for its token alone. */
function placeOf(found: Found<Row> | undefined): Parsed<Placed> {
  const row = found?.place.byMethod.get('GET')
  const params = found === undefined ? undefined : decodeParams(found)
  if (row === undefined || params === undefined)
    return { ok: false, error: 'the path is not percent-encoded UTF-8' }
  return row.place(params, '')
}

type Decided =
  | { readonly data: object; readonly refused?: undefined; readonly cors?: undefined }
  | { readonly data?: undefined; readonly refused: Reply; readonly cors?: Headers | undefined }
