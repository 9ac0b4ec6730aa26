/**
 * Requests and sockets of a browser, with its `fetch` and its `WebSocket` put in.
 *
 * A page talks to the listener that served it, where a cookie stands in the token's place: a browser cannot set headers
 * on a socket, and a page must not hold the token.
 */
import type {
  ClientConnection,
  ClientReply,
  ClientSocket,
  HostAddress,
  SocketListener,
} from './connection.ts'

/** The parts of a browser's `WebSocket` that are used. */
export interface BrowserSocket {
  readonly readyState: number
  readonly bufferedAmount: number
  onopen: ((event: never) => unknown) | null
  onmessage: ((event: never) => unknown) | null
  onclose: ((event: never) => unknown) | null
  send(text: string): void
  close(): void
}

export interface BrowserParts {
  readonly fetch: typeof fetch
  readonly WebSocket: new (url: string) => BrowserSocket
  /** The page's own origin, like `http://127.0.0.1:4402`. */
  readonly origin: string
}

const OPEN = 1

export function createBrowserConnection(parts: BrowserParts): ClientConnection {
  // A browser's fetch refuses to be called as the method of another object.
  const { fetch } = parts
  return {
    address: () => ({ url: parts.origin }),
    send: async ({ method, url, headers, body, signal }) =>
      replyOf(
        await fetch(url, {
          method,
          headers,
          signal,
          redirect: 'error',
          ...(body === undefined ? {} : { body }),
        }),
      ),
    dial: (at, path, listener) => dialByBrowser(parts, at, path, listener),
  }
}

function replyOf(response: Response): ClientReply {
  return {
    status: response.status,
    header: (name) => response.headers.get(name) ?? undefined,
    body: chunksOf(response),
  }
}

/** Not every browser iterates over streams by itself. */
async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  if (reader === undefined) return
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value
  } finally {
    reader.cancel().catch(() => {})
  }
}

function dialByBrowser(
  { WebSocket }: BrowserParts,
  at: HostAddress,
  path: string,
  listener: SocketListener,
): ClientSocket {
  const socket = new WebSocket(`${at.url.replace(/^http/, 'ws')}${path}`)
  let isOver = false
  socket.onopen = () => listener.onOpen()
  socket.onmessage = ({ data }: { readonly data: unknown }) => {
    if (!isOver && typeof data === 'string') listener.onText(data)
  }
  socket.onclose = ({ code, reason }: { readonly code: number; readonly reason: string }) => {
    isOver = true
    listener.onEnd({ reason: reason === '' ? `the connection was closed (${code})` : reason })
  }
  return {
    send: (text) => {
      if (socket.readyState === OPEN) socket.send(text)
    },
    backlog: () => socket.bufferedAmount,
    close: () => socket.close(),
  }
}
