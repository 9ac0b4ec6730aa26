/**
 * One request and its one reply, when the reply does not come at once.
 *
 * The client may hang up at any moment, and whatever is answered after that falls on the floor here. Nobody else
 * holds the listener's response object, so nobody can write to it twice or too late.
 */
import type { HttpResponse } from 'uWebSockets.js'
import type { Clock } from '../core/ports.ts'
import { ChunkedBody } from './chunked-body.ts'
import { type Download, type Headers, type Reply, send, writeHead } from './reply.ts'

/** How long a client may go on sending a body that is refused already before it is hung up on. */
export const REFUSED_BODY_MS_MAX = 10_000

export class Exchange {
  readonly #response: HttpResponse
  readonly #extra: Headers | undefined
  readonly #onEnd: (() => void)[] = []
  #isAnswered = false
  #isEnded = false

  constructor(response: HttpResponse, extra: Headers | undefined) {
    this.#response = response
    this.#extra = extra
    response.onAborted(() => this.#end())
  }

  /** Replied to, or abandoned by the client. */
  get isOver(): boolean {
    return this.#isEnded || this.#isAnswered
  }

  /** Runs once, when the reply is written or nobody waits for it any more. */
  onEnd(run: () => void): void {
    this.#onEnd.push(run)
  }

  /** Answers whether the reply went out. */
  reply(reply: Reply): boolean {
    if (this.isOver) return false
    this.#response.cork(() => send(this.#response, reply, this.#extra))
    this.#end()
    return true
  }

  /**
   * Sends a long body as it is read; answers whether it was begun. Rejects when it cannot be read: before its first
   * piece nothing has gone out and another reply is possible; after that the connection is cut, so that nobody takes
   * half a file for a whole one.
   */
  async download(reply: Download): Promise<boolean> {
    // Nobody would end a reading that is only begun now.
    if (this.isOver) return false
    const pieces = reply.read()[Symbol.asyncIterator]()
    // Also ends a read that is under way when the client hangs up.
    this.onEnd(() => void pieces.return?.().catch(() => undefined))
    const first = await pieces.next()
    if (this.isOver) return false
    if (first.done === true || reply.size === 0) return this.#sendEmpty(reply)
    this.#isAnswered = true
    this.#response.cork(() => writeHead(this.#response, reply, this.#extra))
    await this.#sendChunks(reply.size, first.value, pieces)
    return true
  }

  async #sendChunks(size: number, first: Uint8Array, rest: AsyncIterator<Uint8Array>): Promise<void> {
    const out = new ChunkedBody(this.#response, size)
    this.onEnd(() => out.abort())
    try {
      let bytes: Uint8Array | undefined = first
      while (bytes !== undefined && !this.#isEnded) {
        if ((await out.send(bytes)) === 'all') this.#end()
        const next: IteratorResult<Uint8Array> = this.#isEnded
          ? { done: true, value: undefined }
          : await rest.next()
        bytes = next.done === true ? undefined : next.value
      }
    } finally {
      if (!this.#isEnded) this.#response.close()
    }
  }

  #sendEmpty(reply: Download): boolean {
    if (reply.size > 0) throw new Error(`nothing came of a body of ${reply.size} bytes`)
    return this.reply({ ...reply, body: '' })
  }

  /** For a client that has kept us waiting: replies and hangs up. */
  replyAndClose(reply: Reply): void {
    if (this.isOver) return
    this.#response.cork(() => {
      writeHead(this.#response, reply, this.#extra)
      this.#response.end(reply.body, true)
    })
    this.#end()
  }

  /**
   * Replies while the body is still coming. The reply's text goes out at once, for clients that listen while they
   * send; it ends when the body has, because closing on a client that is still sending resets the connection and
   * loses the reply. (The listener's own way of closing here would write a header into the middle of the text.)
   */
  replyBeforeBodyEnds(reply: Reply, rest: (sent: () => void) => void, clock: Clock): void {
    if (this.isOver) return
    this.#isAnswered = true
    this.#response.cork(() => {
      writeHead(this.#response, reply, this.#extra)
      this.#response.writeHeader('connection', 'close')
      this.#response.write(reply.body)
    })
    this.onEnd(clock.after(REFUSED_BODY_MS_MAX, () => this.#response.close()))
    rest(() => {
      if (this.#isEnded) return
      this.#response.cork(() => this.#response.end())
      this.#end()
    })
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    for (const run of this.#onEnd) run()
  }
}
