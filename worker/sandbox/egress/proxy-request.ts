/**
 * Reads the head of a proxy request from a socket that any process in the sandbox may write to.
 *
 * Only `CONNECT` is accepted. The head must be complete within HEAD_MS_MAX and HEAD_BYTES_MAX. Bytes after the head
 * stay in the socket for the tunnel. Header fields are ignored.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'
import type { ProxyStatus } from './replies.ts'

export type ProxyRequest =
  | { readonly is: 'connect'; readonly authority: string }
  | { readonly is: 'bad'; readonly status: ProxyStatus; readonly why: string; readonly target: string }
  /** The client disconnected, or closed its half, before the request was complete. */
  | { readonly is: 'gone' }

export const HEAD_BYTES_MAX = 8 * 1024
export const HEAD_MS_MAX = 10_000

const HEAD_END = '\r\n\r\n'
const REQUEST_LINE = /^([A-Z]{1,20}) (\S+) HTTP\/1\.[01]$/

export function readProxyRequest(socket: Socket, clock: Clock): Promise<ProxyRequest> {
  return new Promise((resolve) => {
    let read = Buffer.alloc(0)
    const settle = (request: ProxyRequest) => {
      cancel()
      socket.pause()
      socket.off('data', onData).off('end', onClose).off('close', onClose)
      resolve(request)
    }
    const onClose = () => settle({ is: 'gone' })
    const onData = (bytes: Buffer) => {
      read = Buffer.concat([read, bytes])
      const end = read.indexOf(HEAD_END)
      if (end < 0 ? read.length > HEAD_BYTES_MAX : end > HEAD_BYTES_MAX) return settle(tooLarge)
      if (end < 0) return
      settle(parseRequestHead(read.toString('latin1', 0, end)))
      const rest = read.subarray(end + HEAD_END.length)
      if (rest.length > 0) socket.unshift(rest)
    }
    const cancel = clock.after(HEAD_MS_MAX, () => settle(tooSlow))
    socket.on('data', onData).on('end', onClose).on('close', onClose)
  })
}

const tooLarge: ProxyRequest = badRequest(
  '431 Request Header Fields Too Large',
  `the head of a request may have at most ${HEAD_BYTES_MAX} bytes`,
)
const tooSlow: ProxyRequest = badRequest(
  '408 Request Timeout',
  `a request must be complete within ${HEAD_MS_MAX / 1000} s`,
)

function parseRequestHead(head: string): ProxyRequest {
  const [line = ''] = head.split('\r\n', 1)
  const [, method, target = ''] = REQUEST_LINE.exec(line) ?? []
  if (method === undefined) return badRequest('400 Bad Request', 'this is not a request to a proxy')
  if (method === 'CONNECT') return { is: 'connect', authority: target }
  const why =
    'this proxy supports only CONNECT; use an https:// address, or make the program tunnel http:// too'
  return badRequest('405 Method Not Allowed', why, target)
}

function badRequest(status: ProxyStatus, why: string, target = ''): ProxyRequest {
  return { is: 'bad', status, why, target }
}
