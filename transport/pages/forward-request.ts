/** Forwards a request of the page to the host, and its answer to the page, no faster than the page reads. */
import { HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import type { Exchange } from '../exchange.ts'
import { type Download, type Headers, type Reply, refusal } from '../reply.ts'
import type { ForwardedReply, ForwardedRequest, HostForwarder } from './host-forwarder.ts'

/** Everything else that the host says in headers is between it and this process. */
const FORWARDED_HEADERS = ['allow', 'content-disposition', 'content-encoding', 'link', 'retry-after', 'vary']
/** An answer that a browser would show as a document may do nothing. */
const INERT: Headers = [
  ['content-security-policy', "default-src 'none'; sandbox; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
]
const UNSAFE_IN_HEADER = /[^\t\x20-\x7e]/
const JSON_TYPE = 'application/json'

export async function forwardRequest(
  forwarder: HostForwarder,
  request: Omit<ForwardedRequest, 'signal'>,
  exchange: Exchange,
): Promise<void> {
  const gone = new AbortController()
  let reply: ForwardedReply | undefined
  // Later the exchange ends the reading of the answer by itself.
  exchange.onEnd(() => {
    if (reply === undefined) gone.abort()
  })
  try {
    reply = await forwarder.send({ ...request, signal: gone.signal })
  } catch (error) {
    exchange.reply(hostAway(error))
    return
  }
  if (reply.status === 200 && request.method !== 'HEAD') await forwardBody(reply, exchange)
  else exchange.reply(await readReply(reply, request.method === 'HEAD'))
}

export const hostAway = (error: unknown): Reply =>
  refusal(503, error instanceof Error ? error.message : String(error), [['retry-after', '1']])

async function forwardBody(reply: ForwardedReply, exchange: Exchange): Promise<void> {
  const length = reply.header('content-length')
  const download: Download = {
    status: 200,
    type: typeOf(reply),
    size: length === undefined ? undefined : Number(length),
    headers: headersOf(reply),
    read: () => reply.body,
  }
  try {
    await exchange.download(download)
  } catch (error) {
    // Before the first part another answer is possible; after it the connection has been closed.
    exchange.reply(hostAway(error))
  }
}

/** Refusals and answers of other statuses are short. */
async function readReply(reply: ForwardedReply, isWithoutBody: boolean): Promise<Reply> {
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of reply.body) {
      bytes += part.byteLength
      if (bytes > HTTP_ANSWER_BYTES_MAX) return refusal(502, 'the answer of the host is too long')
      parts.push(part)
    }
  } catch (error) {
    return hostAway(error)
  }
  const body = isWithoutBody ? '' : Buffer.concat(parts)
  return { status: reply.status, type: typeOf(reply), body, headers: headersOf(reply) }
}

function typeOf(reply: ForwardedReply): string {
  const type = reply.header('content-type') ?? JSON_TYPE
  return UNSAFE_IN_HEADER.test(type) ? JSON_TYPE : type
}

function headersOf(reply: ForwardedReply): Headers {
  const kept = FORWARDED_HEADERS.flatMap((name): Headers => {
    const value = reply.header(name)
    return value === undefined || UNSAFE_IN_HEADER.test(value) ? [] : [[name, value]]
  })
  return [...kept, ...INERT]
}
