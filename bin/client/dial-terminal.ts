/**
 * Connects to a run's attach socket: receives output, sends input.
 *
 * In every case (no host, a silent handshake, a cut cable) the listener's `onEnd` is called exactly once, and nothing
 * after it. No function throws, and the listener is not called before `dialTerminal` has returned.
 */
import { WebSocket } from 'undici'
import type { Cancel, Clock } from '../../core/ports.ts'
import type { AttachInput } from '../../protocol/dashboard.ts'
import { parseJson } from '../../protocol/parse.ts'
import { formatRefusal } from './ask-host.ts'
import { DialHandshake } from './dial-handshake.ts'
import type { HostAddress } from './find-host.ts'

/** How a connection ended. */
export interface ConnectionEnd {
  /** The exit code of the session's process. */
  readonly exit?: number
  /** The message why there is no session or no connection. */
  readonly refusal?: string
  /** The HTTP status of a refused connection. */
  readonly status?: number
  /** Why the connection ended. */
  readonly reason: string
}

export interface TerminalListener {
  onOpen(): void
  onOutput(data: string): void
  onEnd(over: ConnectionEnd): void
}

export interface TerminalConnection {
  send(frame: AttachInput): void
  /** Bytes that are not sent yet. */
  backlog(): number
  close(): void
}

/** The time limit from dialling to an open connection. */
const CONNECT_MS_MAX = 10_000
/** How long the host may take to answer our close frame. */
const CLOSE_MS_MAX = 300
const REASON_CHARS_MAX = 300
/** The reason of connections that the session itself has ended. */
const SESSION_ENDED = 'the host ended the session'

export function dialTerminal(
  at: HostAddress,
  runId: string,
  clock: Pick<Clock, 'after'>,
  listener: TerminalListener,
): TerminalConnection {
  return new SocketTerminalConnection(at, runId, clock, listener)
}

type EndDetails = Pick<ConnectionEnd, 'exit' | 'refusal' | 'status'>

class SocketTerminalConnection implements TerminalConnection {
  readonly #at: HostAddress
  readonly #handshake = new DialHandshake()
  readonly #clock: Pick<Clock, 'after'>
  readonly #listener: TerminalListener
  readonly #socket: WebSocket
  #timer: Cancel
  /** Further messages are ignored. */
  #isDone = false
  #isOver = false

  constructor(at: HostAddress, runId: string, clock: Pick<Clock, 'after'>, listener: TerminalListener) {
    this.#at = at
    this.#clock = clock
    this.#listener = listener
    this.#timer = clock.after(CONNECT_MS_MAX, () =>
      this.#finish(`no answer within ${CONNECT_MS_MAX / 1000} s`),
    )
    const url = `${at.url.replace(/^http/, 'ws')}/ws/runs/${encodeURIComponent(runId)}/attach`
    const headers = { authorization: `Bearer ${at.token}` }
    const socket = new WebSocket(url, { headers, dispatcher: this.#handshake })
    socket.addEventListener('open', () => this.#onOpen())
    socket.addEventListener('message', ({ data }) => this.#onMessage(data))
    // The close event, which always follows, reports the error.
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', ({ code, reason }) =>
      this.#finish(closeReason(code, reason, this.#handshake)),
    )
    this.#socket = socket
  }

  send(frame: AttachInput): void {
    if (this.#socket.readyState === WebSocket.OPEN && !this.#isDone) this.#socket.send(JSON.stringify(frame))
  }

  backlog(): number {
    return this.#socket.bufferedAmount
  }

  close(): void {
    if (this.#isDone) return
    this.#isDone = true
    this.#timer()
    this.#timer = this.#clock.after(CLOSE_MS_MAX, () => this.#finish('closed'))
    this.#socket.close()
  }

  #onOpen(): void {
    if (this.#isDone) return
    this.#timer()
    this.#listener.onOpen()
  }

  #onMessage(text: unknown): void {
    if (this.#isDone) return
    const parsed = typeof text === 'string' ? parseJson(text) : undefined
    const frame: object = parsed?.ok === true ? Object(parsed.value) : {}
    const [data, code, message] = ['data', 'code', 'message'].map((field) => Reflect.get(frame, field))
    switch (Reflect.get(frame, 'type')) {
      case 'data':
        if (typeof data === 'string') this.#listener.onOutput(data)
        return
      case 'exit':
        this.#finish(SESSION_ENDED, { exit: typeof code === 'number' ? code : Number.NaN })
        return
      case 'error':
        this.#finish(SESSION_ENDED, { refusal: typeof message === 'string' ? message : 'refused' })
        return
      default:
      // Ignore frames of a newer host.
    }
  }

  #finish(reason: string, verdict: EndDetails = this.#refusedReply()): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isDone = true
    this.#timer()
    if (this.#socket.readyState < WebSocket.CLOSING) this.#socket.close()
    this.#handshake.stopWatching()
    this.#listener.onEnd({ ...verdict, reason })
  }

  #refusedReply(): EndDetails {
    const { reply } = this.#handshake
    return reply === undefined ? {} : { refusal: formatRefusal(this.#at, reply), status: reply.status }
  }
}

function closeReason(code: number, reason: string, { failure: trouble }: DialHandshake): string {
  if (trouble !== undefined) return trouble
  if (reason !== '') return reason.slice(0, REASON_CHARS_MAX)
  return code === 1006 ? 'the connection broke' : `the host closed the connection (${code})`
}
