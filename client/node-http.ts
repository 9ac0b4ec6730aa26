/** Sends requests over Node's own HTTP client, which loads in a few milliseconds. */
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { ClientReply, ClientRequest, HostOwner } from './connection.ts'
import { provePeer } from './peer-owner.ts'

/** Written out, because a variable of the environment would otherwise turn the check of certificates off. */
export const CHECKED = { rejectUnauthorized: true } as const
const HTTP_PORT = 80

export async function sendByNode({
  method,
  url,
  owner,
  headers,
  body,
  signal,
}: ClientRequest): Promise<ClientReply> {
  const request = url.startsWith('https:') ? (await import('node:https')).request : httpRequest
  const options: RequestOptions = {
    ...CHECKED,
    ...(await connectFor(url, owner, signal)),
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

/**
 * The options of a request that goes over a proven connection of its own. With TLS, Node connects by itself, and the
 * certificate is the proof.
 */
export async function connectFor(
  url: string,
  owner: HostOwner | undefined,
  signal: AbortSignal,
): Promise<Pick<RequestOptions, 'createConnection'>> {
  if (url.startsWith('https:')) return {}
  const socket = await openProven(new URL(url), owner, signal)
  return { createConnection: () => socket }
}

async function openProven(
  { hostname, port }: URL,
  owner: HostOwner | undefined,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const socket = connect(
    owner?.socketPath === undefined
      ? { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || HTTP_PORT) }
      : { path: owner.socketPath },
  )
  const abort = () => void socket.destroy()
  signal.addEventListener('abort', abort)
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('close', () => reject(new Error('the connection broke')))
      // The listener stays, because an error without one would end the process.
      socket.on('error', reject)
    })
    await provePeer(socket, owner)
    return socket
  } catch (error) {
    socket.destroy()
    throw signal.aborted ? signal.reason : error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
