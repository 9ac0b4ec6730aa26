/** Sends requests over Node's own HTTP client, which loads in a few milliseconds. */
import { Agent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import type { Socket } from 'node:net'
import type { ClientReply, ClientRequest, HostOwner } from './connection.ts'
import { HTTP_PORT, openProven } from './proven-socket.ts'

/** Written out, because a variable of the environment would otherwise turn the check of certificates off. */
export const CHECKED = { rejectUnauthorized: true } as const
/** A host that stops closes its connections, so an idle one may break under the request that takes it. */
const IDLE_MS_MAX = 1_000

/**
 * The proven connections of one program, each used by one request after the other. The proof costs as much processor
 * time as a request.
 */
export class KeptConnections extends Agent {
  #proven: Socket | undefined

  constructor() {
    super({ keepAlive: true, timeout: IDLE_MS_MAX })
  }

  /** Node calls this within `request` when no connection is idle. */
  override createConnection(): Socket {
    const socket = this.#proven
    if (socket === undefined) throw new Error('no connection was proven for the request')
    this.#proven = undefined
    return socket
  }

  /** Calls `send` with a connection at hand: an idle one, or one that is opened and proven for it. */
  async withConnection<T>(
    url: URL,
    owner: HostOwner | undefined,
    signal: AbortSignal,
    send: () => T,
  ): Promise<T> {
    if (this.#hasIdle(url)) return send()
    this.#proven = await openProven(url, owner, signal)
    const sent = send()
    // Another request may have ended meanwhile, and left its connection to this one.
    this.#proven?.destroy()
    this.#proven = undefined
    return sent
  }

  #hasIdle({ hostname, port }: URL): boolean {
    const idle = this.freeSockets[this.getName({ host: hostname, port: Number(port || HTTP_PORT) })]
    return idle?.some(({ destroyed }) => !destroyed) === true
  }
}

/** @param kept takes the connection from these, where the host has no TLS */
export async function sendByNode(
  { method, url, owner, headers, body, signal }: ClientRequest,
  kept?: KeptConnections,
): Promise<ClientReply> {
  const isSecure = url.startsWith('https:')
  const request = isSecure ? (await import('node:https')).request : httpRequest
  const keeps = isSecure ? undefined : kept
  const options: RequestOptions = {
    ...CHECKED,
    ...(keeps === undefined ? await connectFor(url, owner, signal) : { agent: keeps }),
    method,
    signal,
    headers: body === undefined ? headers : { ...headers, 'content-length': Buffer.byteLength(body) },
  }
  const send = () =>
    new Promise<ClientReply>((resolve, reject) => {
      const sent = request(url, options, (reply) => resolve(replyOf(reply)))
      sent.on('error', (error) => reject(signal.aborted ? signal.reason : error))
      sent.end(body)
    })
  return await (keeps === undefined ? send() : keeps.withConnection(new URL(url), owner, signal, send))
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
