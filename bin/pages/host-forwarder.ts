/**
 * Reaches the host for a page's listener: adds the launch token, which is looked up anew for each request, because a
 * restarted host has another one. A path that would reach the host as another one is refused, because the listener has
 * decided about the path that it read.
 */
import type { ClientConnection, HostAddress } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import { hostHeaders } from '../../client/host-headers.ts'
import { type NamedSource, SOURCE_HEADER } from '../../protocol/audit.ts'
import type {
  ForwardedReply,
  ForwardedRequest,
  HostForwarder,
} from '../../transport/pages/page-server-options.ts'
import { CLOSE } from '../../transport/sockets/bounded-sender.ts'

const FROM_PAGE = { [SOURCE_HEADER]: 'page' satisfies NamedSource }
const BAD_REQUEST = 400
const UNAUTHORIZED = 401
const AWAY = 'the host is away'
const ANY_ORIGIN = 'http://127.0.0.1'
const NOT_FINAL =
  'the path leads elsewhere or is not fully encoded; send it without dot segments, and encode it'

export function createHostForwarder(connection: ClientConnection): HostForwarder {
  return {
    send: (request) => sendToHost(connection, request),
    dial(path, listener) {
      let isClosed = false
      let socket: ReturnType<ClientConnection['dial']> | undefined
      const end = (reason: string, code?: number) => {
        if (!isClosed) listener.onEnd(reason, code)
        isClosed = true
      }
      addressOf(connection)
        .then((at) => {
          if (isClosed) return
          if (!isFinal(path)) {
            end(NOT_FINAL, CLOSE.policy)
            return
          }
          socket = connection.dial(at, path, {
            onOpen: () => listener.onOpen(),
            onText: (text) => listener.onText(text),
            onEnd: ({ reason, reply, code }) =>
              end(reply === undefined ? reason : sentenceOf(reply.text, reason), code),
          })
        })
        .catch((error: unknown) => end(reasonOf(error)))
      return {
        send: (text) => socket?.send(text),
        backlog: () => socket?.backlog() ?? 0,
        close: () => {
          isClosed = true
          socket?.close()
        },
      }
    },
  }
}

/** Whether the host receives this path; Node's client resolves dots, also encoded ones, and encodes characters. */
function isFinal(path: string): boolean {
  const [pathname] = path.split('?')
  return URL.canParse(path, ANY_ORIGIN) && new URL(path, ANY_ORIGIN).pathname === pathname
}

const refuseNotFinal = (): ForwardedReply => ({
  status: BAD_REQUEST,
  header: () => undefined,
  body: (async function* () {
    yield Buffer.from(JSON.stringify({ error: NOT_FINAL }))
  })(),
})

/** A token that the host refuses is that of a host that is starting again; the page would take 401 for its own. */
async function sendToHost(connection: ClientConnection, request: ForwardedRequest): Promise<ForwardedReply> {
  if (!isFinal(request.path)) return refuseNotFinal()
  const reply = await connection.send(await requestTo(await addressOf(connection), request))
  if (reply.status !== UNAUTHORIZED) return reply
  throw new Error(`${AWAY}: what answers at its address is another program, or the host is starting again`)
}

async function addressOf(connection: ClientConnection): Promise<HostAddress> {
  try {
    return { ...(await connection.address()), headers: FROM_PAGE }
  } catch (error) {
    throw new Error(`${AWAY}: ${reasonOf(error)}`)
  }
}

function requestTo(
  at: HostAddress,
  { method, path, contentType, acceptEncoding, body, signal }: ForwardedRequest,
) {
  return {
    method,
    url: `${at.url}${path}`,
    owner: at.owner,
    headers: {
      ...hostHeaders(at),
      ...(contentType === '' ? {} : { 'content-type': contentType }),
      ...(acceptEncoding === '' ? {} : { 'accept-encoding': acceptEncoding }),
    },
    ...(body === undefined ? {} : { body: Buffer.from(body).toString() }),
    signal,
  }
}

/** The sentence of a refusal's body. */
function sentenceOf(text: string, otherwise: string): string {
  try {
    const error: unknown = Reflect.get(Object(JSON.parse(text)), 'error')
    return typeof error === 'string' ? error : otherwise
  } catch {
    return otherwise
  }
}
