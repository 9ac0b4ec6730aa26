/**
 * ResponseReader collects one HTTP response: whole, limited in size, and abortable at any time.
 *
 * The class implements undici's dispatch handler directly. A stream and an abort signal per response would cost more than the
 * rest of the request, and no caller reads a response before it is complete.
 */
import { HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import type { HttpReply } from './http-types.ts'

interface ConnectionController {
  abort(reason: Error): void
}

type RawHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** Undici calls the `on…` methods as the response arrives; calls after the end have no effect. */
export class ResponseReader {
  /** Resolves with undefined when the response was too long. Rejects when no complete response arrived. */
  readonly reply: Promise<HttpReply | undefined>
  #connection: ConnectionController | undefined
  #statusAndHeaders: Omit<HttpReply, 'text'> | undefined
  #chunks: Buffer[] = []
  #bytes = 0
  #abortError: Error | undefined
  #resolve: (reply: HttpReply | undefined) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get isAborted(): boolean {
    return this.#abortError !== undefined
  }

  /** Ends the request because its time is over. */
  abort(): void {
    this.#end(new Error('the response took too long'))
  }

  // ---- called by undici ----------------------------------------------------------------------------------------------

  /** Undici calls this again when it repeats the request over another connection. */
  onRequestStart(connection: ConnectionController): void {
    this.#connection = connection
    if (this.#abortError !== undefined) connection.abort(this.#abortError)
  }

  /** Undici calls this again after an interim response such as 103. */
  onResponseStart(_connection: ConnectionController, status: number, headers: RawHeaders): void {
    this.#statusAndHeaders = { status, headers: firstValues(headers) }
  }

  onResponseData(_connection: ConnectionController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes <= HTTP_ANSWER_BYTES_MAX) {
      this.#chunks.push(chunk)
      return
    }
    this.#resolve(undefined)
    this.#end(new Error('the response is too long'))
  }

  onResponseEnd(): void {
    const [only = EMPTY_BODY, ...more] = this.#chunks
    const bytes = more.length === 0 ? only : Buffer.concat(this.#chunks)
    if (this.#statusAndHeaders === undefined)
      this.#reject(new Error('the response ended before its headers arrived'))
    else this.#resolve({ ...this.#statusAndHeaders, text: bytes.toString('utf8') })
  }

  onResponseError(_connection: ConnectionController, error: Error): void {
    this.#end(error)
  }

  #end(error: Error): void {
    this.#abortError ??= error
    this.#chunks = []
    this.#connection?.abort(error)
    this.#reject(error)
  }
}

const EMPTY_BODY = Buffer.alloc(0)

function firstValues(headers: RawHeaders): Record<string, string> {
  const first: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const firstValue = typeof value === 'object' ? value[0] : value
    if (firstValue !== undefined) first[name] = firstValue
  }
  return first
}
