/** Answers requests that Node's parser does not accept, and closes their connections. */
import type { Socket } from 'node:net'
import { HTTP_HEAD_BYTES_MAX, HTTP_IDLE_SECONDS_MAX } from '../../protocol/limits.ts'
import { type Reply, refusal } from '../reply.ts'
import { statusLine } from '../status.ts'

const BROKEN = refusal(400, 'this is not a valid request of HTTP/1.1')
const CHUNKED_UPGRADE = refusal(
  400,
  'the body has a Transfer-Encoding and the request an Upgrade header; send a Content-Length, or no Upgrade header',
)
const WRONG_VERSION = refusal(505, 'HTTP/1.1 is the only supported version')
const REPLIES: Readonly<Record<string, Reply>> = {
  ERR_HTTP_REQUEST_TIMEOUT: refusal(408, 'the request did not arrive in time'),
  HPE_HEADER_OVERFLOW: refusal(431, `the head of a request has at most ${HTTP_HEAD_BYTES_MAX} bytes`),
  HPE_INVALID_VERSION: WRONG_VERSION,
}

/** @param mayAnswer false when a part of another reply may have been sent */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, mayAnswer: boolean): void {
  const code = error.code ?? ''
  const reply = REPLIES[code] ?? (code.startsWith('HPE_') ? BROKEN : undefined)
  if (reply === undefined || !mayAnswer || socket.destroyed) socket.destroy()
  // A reply has been sent already when the connection has ended.
  else if (!socket.writableEnded) send(socket, reply)
}

export function refuseBroken(socket: Socket): void {
  send(socket, BROKEN)
}

/** Node reads no chunks behind an upgrade, so nobody would learn where the body ends. */
export function refuseChunkedUpgrade(socket: Socket): void {
  send(socket, CHUNKED_UPGRADE)
}

export function refuseVersion(socket: Socket): void {
  send(socket, WRONG_VERSION)
}

/** Writes the reply itself: node:http has no response for a request that was not read. */
function send(socket: Socket, { status, type, body }: Reply): void {
  const lines = [
    `HTTP/1.1 ${statusLine(status)}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    `\r\n${String(body)}`,
  ]
  socket.setTimeout(HTTP_IDLE_SECONDS_MAX * 1000, () => socket.destroy())
  socket.end(lines.join('\r\n'), () => socket.destroy())
}
