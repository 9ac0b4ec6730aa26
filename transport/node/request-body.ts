/**
 * Body sources hand the bytes of a request's body on, and say which ones are the last.
 *
 * Node stops reading HTTP at an upgrade, although a request that asks for one may have a body and an ordinary reply (some
 * clients ask for HTTP/2 in this way). The body is then read from the connection, by its length; one that is
 * chunked has been refused before.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

export type BodySource = (receive: (piece: Uint8Array, isLast: boolean) => void) => void

const NO_BYTES = new Uint8Array()

export function messageBody(message: IncomingMessage): BodySource {
  return (receive) => {
    message.on('data', (piece: Buffer) => receive(piece, false))
    message.on('end', () => receive(NO_BYTES, true))
  }
}

/** @param first the bytes that arrived together with the head */
export function upgradeBody(message: IncomingMessage, socket: Socket, first: Uint8Array): BodySource {
  return (receive) => {
    let left = Number(message.headers['content-length'] ?? 0)
    const read = (piece: Uint8Array): void => {
      if (left === 0) return
      const own = piece.subarray(0, left)
      left -= own.byteLength
      receive(own, left === 0)
    }
    read(first)
    if (left === 0 && first.byteLength === 0) receive(NO_BYTES, true)
    socket.on('data', read)
  }
}
