/**
 * A request's body, read whole within a cap and a deadline, or only waited for where nobody wants it.
 *
 * The listener hands over pieces that are dead after their callback, so each is copied. It also has a patience of its
 * own: a body slower than 16 KiB/s is hung up on after about ten seconds, without a word from us.
 */
import type { HttpResponse } from 'uWebSockets.js'
import type { Clock } from '../core/ports.ts'
import { HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS_MAX } from '../protocol/limits.ts'
import type { Exchange } from './exchange.ts'
import type { RequestHead } from './request-head.ts'

export type Body =
  | { readonly is: 'whole'; readonly bytes: Uint8Array }
  | { readonly is: 'late' }
  /** More is on its way; `rest` calls back once the client has sent it all. */
  | { readonly is: 'too large'; readonly onRestReceived: (sent: () => void) => void }

/** Why this head's body cannot be read at all, whatever is in it. */
export function framingError(head: RequestHead): string | undefined {
  if (head.contentLengths > 1) return 'the request has more than one Content-Length header; send one'
  if (head.transferEncoding === '' || head.transferEncoding === 'chunked') return undefined
  return 'of the transfer encodings only chunked is understood; send the body as it is, or chunked'
}

/** What becomes of the bytes: handed over, or counted against the cap and forgotten. */
export type BodyUse = 'kept' | 'counted'

/**
 * Calls `done` once, or never when the client hangs up before. Reads from `head` before it returns, not after.
 * A body that is only counted comes out empty: a route without one must not hold what a stranger sends it.
 */
export function readBody(
  response: HttpResponse,
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
