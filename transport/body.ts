/**
 * Reads a request's whole body, within a size limit and a deadline; a body that no route uses is only counted.
 *
 * Every chunk is copied, because the library reuses its memory after the callback. The library also closes a connection
 * whose body is slower than 16 KiB/s after about ten seconds, without calling this code.
 */
import type { Clock } from '../core/ports/clock.ts'
import { HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS_MAX } from '../protocol/limits.ts'
import { parseJson } from '../protocol/parse.ts'
import type { Exchange } from './exchange.ts'
import type { ListenerResponse } from './listener-port.ts'
import { type Reply, refusal } from './reply.ts'
import type { RequestHead } from './request-head.ts'
import type { ServedRoute } from './routes/route-table.ts'

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

type JsonBody = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly reply: Reply }

const NEEDS_BODY = refusal(400, 'this route needs a JSON body, and the body is empty')
const NEEDS_JSON = refusal(400, 'the body must be JSON: send the header "Content-Type: application/json"')
const NOT_UTF8 = refusal(400, 'the body is not valid UTF-8')
const IGNORED: JsonBody = { ok: true, value: undefined }

const JSON_CONTENT = /^application\/(?:json|[\w.!#$&^-]+\+json) *(?:;|$)/i

/** A form of a foreign web page can send any text, but not with this content type without a preflight. */
export function isJsonContent(contentType: string): boolean {
  return JSON_CONTENT.test(contentType)
}

/** Parses a body into a value of the route's schema, or returns the reply that refuses it. */
export function readJsonBody(row: ServedRoute, isJson: boolean, bytes: Uint8Array): JsonBody {
  if (!row.takesBody) return IGNORED
  if (bytes.byteLength === 0) return row.isBodyOptional ? IGNORED : { ok: false, reply: NEEDS_BODY }
  if (!isJson) return { ok: false, reply: NEEDS_JSON }
  const text = decodeUtf8(bytes)
  if (text === undefined) return { ok: false, reply: NOT_UTF8 }
  const parsed = parseJson(text)
  const checked = parsed.ok ? row.readBody(parsed.value) : parsed
  if (checked.ok) return checked
  return { ok: false, reply: refusal(400, checked.error.replace(/^\/: /, 'the body ')) }
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
