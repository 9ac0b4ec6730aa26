/**
 * Holds the response of a request that is answered later, and sends exactly one reply.
 *
 * The client may disconnect at any time; later replies are dropped. No other object holds the library's response, so
 * writing twice or too late is impossible.
 */
import type { Clock } from '../core/ports/clock.ts'
import type { ListenerResponse } from './listener-port.ts'
import { type Download, type Headers, type Reply, send, writeHead } from './reply.ts'
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

// ---- bodies --------------------------------------------------------------------------------------------------------

/** A chunk that was written only in part. */
interface PendingChunk {
  readonly bytes: Uint8Array
  /** The offset of the chunk in the body. */
  readonly from: number
  readonly resolve: (taken: ChunkResult) => void
}

/** `all`: the body is complete, and the response must not be used any more. */
type ChunkResult = 'chunk' | 'all' | 'gone'

/**
 * Sends a long response body in chunks, no faster than the client reads.
 *
 * The library accepts a chunk whole or in part. The rest of the chunk is written again when the socket is writable, and
 * the next chunk is read only after that. So a slow client costs the memory of one chunk.
 */
class ChunkedBody {
  readonly #response: ListenerResponse
  readonly #size: number
  #pending: PendingChunk | undefined

  /** The head must be written before, without Content-Length, which the library writes itself. */
  constructor(response: ListenerResponse, size: number) {
    this.#response = response
    this.#size = size
    response.onWritable((from) => this.#resume(from))
  }

  send(bytes: Uint8Array): ChunkResult | Promise<ChunkResult> {
    const from = this.#response.getWriteOffset()
    const { taken, all } = this.#write(bytes)
    if (all) return 'all'
    if (taken) return 'chunk'
    return new Promise((settle) => {
      this.#pending = { bytes, from, resolve: settle }
    })
  }

  /** The client has disconnected: stop writing. */
  abort(): void {
    this.#pending?.resolve('gone')
    this.#pending = undefined
  }

  #resume(offset: number): boolean {
    if (this.#pending === undefined) return true
    const { bytes, from, resolve: settle } = this.#pending
    const { taken, all } = this.#write(bytes.subarray(offset - from))
    if (!taken && !all) return false
    this.#pending = undefined
    settle(all ? 'all' : 'chunk')
    return true
  }

  /** With newer versions of Node an empty chunk would end the response in the middle of its body. */
  #write(bytes: Uint8Array): { readonly taken: boolean; readonly all: boolean } {
    if (bytes.byteLength === 0) return { taken: true, all: false }
    let answer: readonly [boolean, boolean] = [false, false]
    this.#response.cork(() => {
      answer = this.#response.tryEnd(bytes, this.#size)
    })
    return { taken: answer[0], all: answer[1] }
  }
}

/**
 * Sends a response body whose length is known only at its end, no faster than the client reads.
 *
 * The library keeps what the socket does not accept. StreamedBody asks for the next chunk only when the socket has
 * accepted everything, so a slow client costs the memory of one chunk.
 */
class StreamedBody {
  readonly #response: ListenerResponse
  #resume: ((sent: 'chunk' | 'gone') => void) | undefined

  /** The head must be written before, without Content-Length. */
  constructor(response: ListenerResponse) {
    this.#response = response
    response.onWritable(() => {
      this.#settle('chunk')
      return true
    })
  }

  send(bytes: Uint8Array): 'chunk' | Promise<'chunk' | 'gone'> {
    let isTaken = false
    this.#response.cork(() => {
      isTaken = this.#response.write(bytes)
    })
    if (isTaken) return 'chunk'
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  end(): void {
    this.#response.cork(() => this.#response.end())
  }

  /** The client has disconnected: stop writing. */
  abort(): void {
    this.#settle('gone')
  }

  #settle(sent: 'chunk' | 'gone'): void {
    const resume = this.#resume
    this.#resume = undefined
    resume?.(sent)
  }
}
