/**
 * Holds the response of a request that is answered later, and sends exactly one reply.
 *
 * The client may disconnect at any time; later replies are dropped. No other object holds the library's response, so
 * writing twice or too late is impossible.
 */

import type { Clock } from '../core/ports.ts'
import { ChunkedBody } from './chunked-body.ts'
import type { ListenerResponse } from './listener-port.ts'
import { type Download, type Headers, type Reply, send, writeHead } from './reply.ts'
import { StreamedBody } from './streamed-body.ts'
import { toBytes } from './to-bytes.ts'

/** How long a client may continue to send a refused body before the connection is closed. */
export const REFUSED_BODY_MS_MAX = 10_000

export class Exchange {
  readonly #response: ListenerResponse
  readonly #extra: Headers | undefined
  readonly #onEnd: (() => void)[] = []
  #isAnswered = false
  #isEnded = false

  constructor(response: ListenerResponse, extra: Headers | undefined) {
    this.#response = response
    this.#extra = extra
    response.onAborted(() => this.#end())
  }

  /** A reply was sent, or the client has disconnected. */
  get isOver(): boolean {
    return this.#isEnded || this.#isAnswered
  }

  /** Calls `run` once: after the reply, or when the client has disconnected. */
  onEnd(run: () => void): void {
    this.#onEnd.push(run)
  }

  /** Returns whether the reply was sent. */
  reply(reply: Reply): boolean {
    if (this.isOver) return false
    this.#response.cork(() => send(this.#response, reply, this.#extra))
    this.#end()
    return true
  }

  /**
   * Sends a long body while it is read. Returns whether it was started. Rejects when reading fails: before the first
   * chunk another reply is still possible; after it the connection is closed, so that a client does not take half a
   * file for the whole.
   */
  async download(reply: Download): Promise<boolean> {
    // A read that started now would never be ended.
    if (this.isOver) return false
    const pieces = reply.read()[Symbol.asyncIterator]()
    // Ends the read when the client disconnects.
    this.onEnd(() => void pieces.return?.().catch(() => undefined))
    const first = await pieces.next()
    if (this.isOver) return false
    if (first.done === true || reply.size === 0) return this.#sendEmpty(reply)
    this.#isAnswered = true
    this.#response.cork(() => writeHead(this.#response, reply, this.#extra))
    const body =
      reply.size === undefined
        ? new StreamedBody(this.#response)
        : new ChunkedBody(this.#response, reply.size)
    await this.#sendChunks(body, first.value, pieces)
    return true
  }

  async #sendChunks(
    body: ChunkedBody | StreamedBody,
    first: Uint8Array,
    rest: AsyncIterator<Uint8Array>,
  ): Promise<void> {
    this.onEnd(() => body.abort())
    try {
      let bytes: Uint8Array | undefined = first
      while (bytes !== undefined && !this.#isEnded) {
        if ((await body.send(bytes)) === 'all') this.#end()
        const next: IteratorResult<Uint8Array> = this.#isEnded
          ? { done: true, value: undefined }
          : await rest.next()
        bytes = next.done === true ? undefined : next.value
      }
      if (!this.#isEnded && body instanceof StreamedBody) {
        body.end()
        this.#end()
      }
    } finally {
      if (!this.#isEnded) this.#response.close()
    }
  }

  #sendEmpty(reply: Download): boolean {
    if (reply.size !== 0) throw new Error('a body ended before its first chunk')
    return this.reply({ ...reply, body: '' })
  }

  /** Replies and closes the connection, for a client that sends too slowly. */
  replyAndClose(reply: Reply): void {
    if (this.isOver) return
    this.#response.cork(() => {
      writeHead(this.#response, reply, this.#extra)
      this.#response.end(toBytes(reply.body), true)
    })
    this.#end()
  }

  /**
   * Replies while the body is still arriving. The text is sent at once, for clients that read while they send. The
   * response ends only after the body, because closing earlier would reset the connection and lose the reply.
   * (The library's own close option would write a header into the middle of the text.)
   */
  replyBeforeBodyEnds(reply: Reply, rest: (sent: () => void) => void, clock: Clock): void {
    if (this.isOver) return
    this.#isAnswered = true
    this.#response.cork(() => {
      writeHead(this.#response, reply, this.#extra)
      this.#response.writeHeader('connection', 'close')
      this.#response.write(toBytes(reply.body))
    })
    this.onEnd(clock.after(REFUSED_BODY_MS_MAX, () => this.#response.close()))
    // End later: while this reply is open, the library closes the connection instead of reading another request.
    const endReply = (): void => {
      if (this.#isEnded) return
      this.#response.cork(() => this.#response.end())
      this.#end()
    }
    rest(() => this.onEnd(clock.after(0, endReply)))
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    for (const run of this.#onEnd) run()
  }
}
