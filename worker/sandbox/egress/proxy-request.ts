/**
 * The head of a proxy request, read by hand from a socket that anybody inside may write to.
 *
 * Only `CONNECT` gets through. The head has to be whole within a short time and few bytes; what follows it stays in
 * the socket, untouched, for the tunnel. Header fields mean nothing here and are passed over.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../../../core/ports.ts'
import type { ProxyStatus } from './replies.ts'

export type ProxyRequest =
  | { readonly is: 'connect'; readonly authority: string }
  | { readonly is: 'bad'; readonly status: ProxyStatus; readonly why: string; readonly target: string }
  /** It went away, or closed its half, before it had said what it wants. */
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
  `a request's head may have ${HEAD_BYTES_MAX} bytes`,
)
const tooSlow: ProxyRequest = badRequest(
  '408 Request Timeout',
  `a request has to be whole within ${HEAD_MS_MAX / 1000} s`,
)

function parseRequestHead(head: string): ProxyRequest {
  const [line = ''] = head.split('\r\n', 1)
  const [, method, target = ''] = REQUEST_LINE.exec(line) ?? []
  if (method === undefined) return badRequest('400 Bad Request', 'this is not a request to a proxy')
  if (method === 'CONNECT') return { is: 'connect', authority: target }
  const why =
    'this way out only does CONNECT; use an https:// address, or have the program tunnel http:// too'
  return badRequest('405 Method Not Allowed', why, target)
}

function badRequest(status: ProxyStatus, why: string, target = ''): ProxyRequest {
  return { is: 'bad', status, why, target }
}
