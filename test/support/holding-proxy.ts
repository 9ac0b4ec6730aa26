/**
 * A proxy that holds one request, either before the server receives it or before the client receives the response.
 *
 * With it a test kills a process between two exact steps. The proxy forwards complete requests and responses. When the
 * client disconnects while its request is held, the proxy drops the request or, for `late`, forwards it anyway.
 */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from '@jest/globals'

/** Long enough that the proxy never closes a connection that a client is about to reuse. */
const KEEP_ALIVE_MS = 300_000

const open = new Set<HoldingProxy>()

afterAll(() => {
  for (const proxy of open) proxy.close()
  open.clear()
})

export interface Hold {
  /** The request has arrived. */
  readonly hasArrived: () => boolean
  /** The client has disconnected. */
  readonly isAbandoned: () => boolean
  release(): void
}

/** `late`: the server receives the request after the release even if the client has disconnected. */
type HoldPoint = 'before' | 'late' | 'after'

interface HeldRequest extends Hold {
  readonly pattern: RegExp
  readonly when: HoldPoint
  readonly onArrival: (answer: ServerResponse) => void
  readonly released: Promise<void>
}

type ProxiedResponse = Pick<IncomingMessage, 'statusCode' | 'headers'> & { readonly body: Buffer }

export class HoldingProxy {
  readonly #to: URL
  readonly #server: Server
  readonly #holds = new Set<HeldRequest>()

  private constructor(to: string) {
    this.#to = new URL(to)
    this.#server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (asked, answer) => {
      this.#serve(asked, answer).catch(() => answer.destroy())
    })
  }

  static async startFor(url: string): Promise<HoldingProxy> {
    const proxy = new HoldingProxy(url)
    open.add(proxy)
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get url(): string {
    // A listening TCP server has this kind of address.
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Holds the next request whose `POST /a/path?and=query` matches the pattern. */
  hold(when: HoldPoint, pattern: RegExp): Hold {
    let answer: ServerResponse | undefined
    let release = () => {}
    const held: HeldRequest = {
      pattern,
      when,
      onArrival: (to) => {
        answer = to
      },
      released: new Promise<void>((resolve) => {
        release = resolve
      }),
      hasArrived: () => answer !== undefined,
      isAbandoned: () => answer?.closed === true,
      release: () => release(),
    }
    this.#holds.add(held)
    return held
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await readBody(asked)
    const hold = this.#takeHold(`${asked.method} ${asked.url}`)
    if (hold !== undefined && hold.when !== 'after') await waitForRelease(hold, answer)
    if (answer.closed && hold?.when !== 'late') return
    const answered = await this.#forward(asked, body)
    if (hold?.when === 'after') await waitForRelease(hold, answer)
    answer.writeHead(answered.statusCode ?? 502, answered.headers).end(answered.body)
  }

  #takeHold(line: string): HeldRequest | undefined {
    const found = [...this.#holds].find(({ pattern }) => pattern.test(line))
    if (found !== undefined) this.#holds.delete(found)
    return found
  }

  #forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<ProxiedResponse> {
    const { 'transfer-encoding': _, ...rest } = headers
    const { hostname, port } = this.#to
    const length = body.length === 0 ? {} : { 'content-length': String(body.length) }
    return new Promise((resolve, reject) => {
      const to = request(
        { hostname, port, method, path: url, headers: { ...rest, ...length }, agent: false },
        (from) => {
          readBody(from).then(
            (answered) =>
              resolve({ statusCode: from.statusCode, headers: endToEndHeaders(from), body: answered }),
            reject,
          )
        },
      )
      to.on('error', reject)
      to.end(body)
    })
  }
}

function waitForRelease({ onArrival: arrive, released }: HeldRequest, answer: ServerResponse): Promise<void> {
  arrive(answer)
  return released
}

/** Drops the headers about length and connection, because the proxy sends its own. */
function endToEndHeaders({ headers }: IncomingMessage): IncomingMessage['headers'] {
  const { 'transfer-encoding': _, connection: __, 'content-length': ___, ...rest } = headers
  return rest
}

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of message) parts.push(part)
  return Buffer.concat(parts)
}
