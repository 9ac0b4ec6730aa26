/**
 * Taking in one answer from the line: whole, bounded, and given up at any moment.
 *
 * It is listened to directly. A stream for each answer, and a signal to end it by, would cost more than all the rest
 * of asking, and nobody reads an answer before it is whole.
 */
import { HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import type { HttpReply } from './http.ts'

interface ConnectionController {
  abort(reason: Error): void
}

type RawHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** What the line calls as the answer comes; nothing that comes after the end counts. */
export class ResponseReader {
  /** undefined: it was too long. Rejects when there is no whole answer. */
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

  /** Nobody waits for it any more. */
  abort(): void {
    this.#end(new Error('it took too long'))
  }

  // ---- what the line calls -------------------------------------------------------------------------------------------

  /** Again when it is sent once more over another line. */
  onRequestStart(connection: ConnectionController): void {
    this.#connection = connection
    if (this.#abortError !== undefined) connection.abort(this.#abortError)
  }

  /** Again after one that is only in passing, such as 103. */
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
    this.#end(new Error('it is too long'))
  }

  onResponseEnd(): void {
    const [only = EMPTY_BODY, ...more] = this.#chunks
    const bytes = more.length === 0 ? only : Buffer.concat(this.#chunks)
    if (this.#statusAndHeaders === undefined) this.#reject(new Error('an answer ended before it began'))
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
