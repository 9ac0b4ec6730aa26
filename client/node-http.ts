/** Sends requests over Node's own HTTP client, which loads in a few milliseconds. */
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import type { ClientReply, ClientRequest } from './connection.ts'

/** Written out, because a variable of the environment would otherwise turn the check of certificates off. */
export const CHECKED = { rejectUnauthorized: true } as const

export async function sendByNode({
  method,
  url,
  headers,
  body,
  signal,
}: ClientRequest): Promise<ClientReply> {
  const request = url.startsWith('https:') ? (await import('node:https')).request : httpRequest
  const options: RequestOptions = {
    ...CHECKED,
    method,
    signal,
    headers: body === undefined ? headers : { ...headers, 'content-length': Buffer.byteLength(body) },
  }
  return await new Promise((resolve, reject) => {
    const sent = request(url, options, (reply) => resolve(replyOf(reply)))
    sent.on('error', (error) => reject(signal.aborted ? signal.reason : error))
    sent.end(body)
  })
}

function replyOf(reply: IncomingMessage): ClientReply {
  return {
    status: reply.statusCode ?? 0,
    header(name) {
      const value = reply.headers[name]
      return Array.isArray(value) ? value.join(', ') : value
    },
    body: reply,
  }
}
