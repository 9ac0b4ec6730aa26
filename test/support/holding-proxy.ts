/**
 * A way to a server of this machine on which a test can hold one request: before the server hears of it, or when it has
 * answered and nobody has heard the answer. So a process can be killed between two exact steps of its own.
 *
 * Requests and answers pass whole. What is held for somebody who has gone away meanwhile is dropped, or comes late.
 */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from '@jest/globals'

/** No line is hung up on that a client may be about to use again. */
const KEEP_ALIVE_MS = 300_000

const open = new Set<HoldingProxy>()

afterAll(() => {
  for (const proxy of open) proxy.close()
  open.clear()
})

export interface Hold {
  /** It has come. */
  readonly hasArrived: () => boolean
  /** Nobody waits for its answer any more. */
  readonly isAbandoned: () => boolean
  release(): void
}

/** `late`: it comes through in the end, whether or not anybody still waits for the answer. */
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
    // A TCP server that listens has this kind of address.
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The next request like `POST /a/path?and=query`, once. */
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

/** Its length is known now, and the connection is our own. */
function endToEndHeaders({ headers }: IncomingMessage): IncomingMessage['headers'] {
  const { 'transfer-encoding': _, connection: __, 'content-length': ___, ...rest } = headers
  return rest
}

async function readBody(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of message) parts.push(part)
  return Buffer.concat(parts)
}
