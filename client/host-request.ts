/**
 * Sends one request with the token and a time limit, and reads its answer whole or part by part.
 *
 * A refusal is thrown as a `HostRefusal`. A host that is away, or that stops within an answer, is a `HostUnreachable`.
 * The caller's own abort is thrown with its reason.
 */
import { HTTP_ANSWER_BYTES_MAX } from '../protocol/limits.ts'
import type { ClientConnection, ClientReply, HostAddress } from './connection.ts'
import { ForeignPeer, HostRefusal, HostUnreachable, reasonOf } from './errors.ts'
import { hostHeaders } from './host-headers.ts'

/** Merging a pull request can wait for a code host that asks to be called again. */
const ANSWER_MS_MAX = 60_000

export interface CallOptions {
  /** The time limit of the whole request; of a download, until its first byte, and 60 s for each later part. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

export interface PlainRequest {
  readonly method: string
  /** With its query. */
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
}

type AtHost<T> = { readonly at: HostAddress } & T

/** Sends any request with the token, and returns the whole answer. */
export function requestText(
  connection: ClientConnection,
  request: PlainRequest,
  options: CallOptions,
): Promise<AtHost<{ readonly text: string }>> {
  return sendRequest(connection, request, options, async (at, reply, timer) => ({
    at,
    text: await readWhole(at, reply, timer),
  }))
}

/**
 * The reply with its body unread; a refusal is read and thrown.
 *
 * Reading the body throws a `HostUnreachable` when the host stops in the middle of it.
 */
export function openReply(
  connection: ClientConnection,
  request: PlainRequest,
  options: CallOptions,
): Promise<AtHost<{ readonly reply: ClientReply }>> {
  return sendRequest(connection, request, options, async (at, reply, timer) => {
    const body = readParts(at, reply, timer)
    return { at, reply: { status: reply.status, header: (name) => reply.header(name), body } }
  })
}

/** @param read reads a success within the time limit */
async function sendRequest<T>(
  connection: ClientConnection,
  { method, path, body }: PlainRequest,
  options: CallOptions,
  read: (at: HostAddress, reply: ClientReply, timer: RequestTimer) => Promise<T>,
): Promise<T> {
  const at = await connection.address()
  const timer = new RequestTimer(options)
  timer.start(options.timeoutMs)
  try {
    const reply = await connection
      .send({
        method,
        url: `${at.url}${path}`,
        owner: at.owner,
        headers: headersOf(at, body),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: timer.signal,
      })
      .catch((error) => {
        throw timer.failureOf(at, error)
      })
    if (reply.status >= 200 && reply.status < 300) return await read(at, reply, timer)
    const challenge = reply.header('www-authenticate')
    const text = await readWhole(at, reply, timer)
    const refusal = { status: reply.status, text, ...(challenge === undefined ? {} : { challenge }) }
    throw new HostRefusal(at, refusal, `${method} ${path}`)
  } finally {
    timer.stop()
  }
}

/** The time limit of one request, and its abort by the caller. */
class RequestTimer {
  readonly signal: AbortSignal
  readonly #late = new AbortController()
  readonly #callerSignal: AbortSignal | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor({ signal }: CallOptions) {
    this.#callerSignal = signal
    this.signal = signal === undefined ? this.#late.signal : AbortSignal.any([signal, this.#late.signal])
  }

  start(ms = ANSWER_MS_MAX): void {
    this.stop()
    this.#timer = setTimeout(() => this.#late.abort(new Error('no answer in time')), ms)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  /** The error for the caller: the reason of its own abort, or a host out of reach. */
  failureOf(at: HostAddress, error: unknown): unknown {
    if (this.#callerSignal?.aborted === true) return this.#callerSignal.reason
    if (error instanceof ForeignPeer) return error
    return new HostUnreachable(at, reasonOf(this.signal.aborted ? this.signal.reason : error))
  }
}

const headersOf = (at: HostAddress, body: unknown): Readonly<Record<string, string>> => ({
  ...hostHeaders(at),
  ...(body === undefined ? {} : { 'content-type': 'application/json' }),
})

async function readWhole(at: HostAddress, { body }: ClientReply, timer: RequestTimer): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  try {
    for await (const chunk of body) {
      bytes += chunk.byteLength
      if (bytes > HTTP_ANSWER_BYTES_MAX) throw new Error('the answer is too long')
      text += decoder.decode(chunk, { stream: true })
    }
  } catch (error) {
    throw timer.failureOf(at, error)
  }
  return text + decoder.decode()
}

/** Only the host has to be quick: the time that the reader takes between two parts does not count. */
async function* readParts(
  at: HostAddress,
  { body }: ClientReply,
  timer: RequestTimer,
): AsyncGenerator<Uint8Array> {
  const parts = body[Symbol.asyncIterator]()
  let isOver = false
  try {
    for (;;) {
      timer.start()
      const part = await parts.next().catch((error) => {
        isOver = true
        throw timer.failureOf(at, error)
      })
      timer.stop()
      isOver = part.done === true
      if (part.done === true) return
      yield part.value
    }
  } finally {
    timer.stop()
    if (!isOver) await parts.return?.()
  }
}
