/**
 * Reads a request's whole body, within a size limit and a deadline; a body that no route uses is only counted.
 *
 * Every chunk is copied, because the library reuses its memory after the callback. The library also closes a connection
 * whose body is slower than 16 KiB/s after about ten seconds, without calling this code.
 */

import type { Clock } from '../core/ports.ts'
import { HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS_MAX } from '../protocol/limits.ts'
import type { Exchange } from './exchange.ts'
import type { ListenerResponse } from './listener-port.ts'
import type { RequestHead } from './request-head.ts'

export type Body =
  | { readonly is: 'whole'; readonly bytes: Uint8Array }
  | { readonly is: 'late' }
  /** The rest is still arriving; `rest` calls back once the client has sent it all. */
  | { readonly is: 'too large'; readonly onRestReceived: (sent: () => void) => void }

const DIGITS = /^[0-9]+$/

/**
 * Why nobody can say where the body of this request ends; undefined when it is clear. The library reads on behind the
 * end that it assumes, and another program in between may assume a different one.
 */
export function framingError(head: RequestHead): string | undefined {
  const { contentLength, contentLengths, transferEncoding, transferEncodings } = head
  if (contentLengths > 1) return 'the request has more than one Content-Length header; send one'
  if (contentLengths === 1 && !DIGITS.test(contentLength)) return 'the Content-Length must be a whole number'
  if (transferEncodings === 0) return undefined
  if (transferEncodings === 1 && contentLengths === 0 && transferEncoding === 'chunked') return undefined
  return 'chunked is the only supported transfer encoding; send the body chunked or without an encoding'
}

/** `kept`: the bytes are returned. `counted`: they only count against the size limit. */
export type BodyUse = 'kept' | 'counted'

/**
 * Calls `done` once, or never when the client disconnects before.
 * A counted body is empty, so that a route without a body does not keep a client's data in memory.
 */
export function readBody(
  response: ListenerResponse,
  head: RequestHead,
  use: BodyUse,
  clock: Clock,
  exchange: Exchange,
  done: (body: Body) => void,
  bytesMax = HTTP_BODY_BYTES_MAX,
): void {
  const pieces: Uint8Array[] = []
  let size = 0
  let settled = false
  let whenSent: (() => void) | undefined

  const settle = (body: Body): void => {
    if (settled) return
    settled = true
    cancelDeadline()
    done(body)
  }
  const tooLarge = (): void => {
    pieces.length = 0
    settle({
      is: 'too large',
      onRestReceived: (sent) => {
        whenSent = sent
      },
    })
  }
  const cancelDeadline = clock.after(HTTP_BODY_SECONDS_MAX * 1000, () => settle({ is: 'late' }))
  exchange.onEnd(() => {
    settled = true
    pieces.length = 0
    cancelDeadline()
  })
  response.onData((piece, isLast) => {
    if (!settled) {
      size += piece.byteLength
      if (size > bytesMax) tooLarge()
      else if (use === 'kept') pieces.push(new Uint8Array(piece.slice(0)))
    }
    if (!isLast) return
    settle({ is: 'whole', bytes: Buffer.concat(pieces) })
    whenSent?.()
  })
  if (Number(head.contentLength) > bytesMax) tooLarge()
}
