/**
 * Taking in one answer from the line: whole, bounded, and given up at any moment.
 *
 * It is listened to directly. A stream for each answer, and a signal to end it by, would cost more than all the rest
 * of asking, and nobody reads an answer before it is whole.
 */
import { HTTP_ANSWER_BYTES_MAX } from '../../protocol/limits.ts'
import type { HttpReply } from './http.ts'

interface Line {
  abort(reason: Error): void
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** What the line calls as the answer comes; nothing that comes after the end counts. */
export class Intake {
  /** undefined: it was too long. Rejects when there is no whole answer. */
  readonly reply: Promise<HttpReply | undefined>
  #line: Line | undefined
  #head: Omit<HttpReply, 'text'> | undefined
  #pieces: Buffer[] = []
  #bytes = 0
  #givenUp: Error | undefined
  #take: (reply: HttpReply | undefined) => void = () => {}
  #fail: (error: unknown) => void = () => {}

  constructor() {
    this.reply = new Promise((resolve, reject) => {
      this.#take = resolve
      this.#fail = reject
    })
  }

  get isGivenUp(): boolean {
    return this.#givenUp !== undefined
  }

  /** Nobody waits for it any more. */
  giveUp(): void {
    this.#end(new Error('it took too long'))
  }

  // ---- what the line calls -------------------------------------------------------------------------------------------

  /** Again when it is sent once more over another line. */
  onRequestStart(line: Line): void {
    this.#line = line
    if (this.#givenUp !== undefined) line.abort(this.#givenUp)
  }

  /** Again after one that is only in passing, such as 103. */
  onResponseStart(_line: Line, status: number, headers: Headers): void {
    this.#head = { status, headers: firstOf(headers) }
  }

  onResponseData(_line: Line, piece: Buffer): void {
    this.#bytes += piece.length
    if (this.#bytes <= HTTP_ANSWER_BYTES_MAX) {
      this.#pieces.push(piece)
      return
    }
    this.#take(undefined)
    this.#end(new Error('it is too long'))
  }

  onResponseEnd(): void {
    const [only = EMPTY, ...more] = this.#pieces
    const bytes = more.length === 0 ? only : Buffer.concat(this.#pieces)
    if (this.#head === undefined) this.#fail(new Error('an answer ended before it began'))
    else this.#take({ ...this.#head, text: bytes.toString('utf8') })
  }

  onResponseError(_line: Line, error: Error): void {
    this.#end(error)
  }

  #end(error: Error): void {
    this.#givenUp ??= error
    this.#pieces = []
    this.#line?.abort(error)
    this.#fail(error)
  }
}

const EMPTY = Buffer.alloc(0)

function firstOf(headers: Headers): Record<string, string> {
  const first: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const one = typeof value === 'object' ? value[0] : value
    if (one !== undefined) first[name] = one
  }
  return first
}
