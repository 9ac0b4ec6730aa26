/**
 * One line to a run's attach socket: what is printed comes in, what is typed goes out, and once it is over.
 *
 * Whatever happens (nobody there, a host that falls silent while it shakes hands, a cut cable), the ear hears `over`
 * once and nothing after it. Nothing here throws, and nothing is heard while `dialTerminal` is still on the stack.
 */
import { WebSocket } from 'undici'
import type { Cancel, Clock } from '../../core/ports.ts'
import type { AttachInput } from '../../protocol/dashboard.ts'
import { parseJson } from '../../protocol/parse.ts'
import { formatRefusal } from './ask-host.ts'
import { DialHandshake } from './dial-handshake.ts'
import type { HostAddress } from './find-host.ts'

/** How a line ended. */
export interface ConnectionEnd {
  /** The session's process has ended, with this. */
  readonly exit?: number
  /** The sentence why there is no session, or no line. */
  readonly refusal?: string
  /** The status that was answered in place of a line. */
  readonly status?: number
  /** Otherwise: what became of the line. */
  readonly reason: string
}

export interface TerminalListener {
  onOpen(): void
  onOutput(data: string): void
  onEnd(over: ConnectionEnd): void
}

export interface TerminalConnection {
  send(frame: AttachInput): void
  /** Bytes handed over and not yet on their way. */
  backlog(): number
  close(): void
}

/** From dialling to an open line. */
const CONNECT_MS_MAX = 10_000
/** How long the host may take to say goodbye, when it is us who go. */
const CLOSE_MS_MAX = 300
const REASON_CHARS_MAX = 300
/** The last word of a session; nothing that becomes of the line changes it. */
const SESSION_ENDED = 'the host said so'

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
  /** Nothing more is heard of the session. */
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
    // What went wrong is told with the close event, which always follows.
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

  #onMessage(message: unknown): void {
    if (this.#isDone) return
    const parsed = typeof message === 'string' ? parseJson(message) : undefined
    const frame: object = parsed?.ok === true ? Object(parsed.value) : {}
    const [data, code, sentence] = ['data', 'code', 'message'].map((field) => Reflect.get(frame, field))
    switch (Reflect.get(frame, 'type')) {
      case 'data':
        if (typeof data === 'string') this.#listener.onOutput(data)
        return
      case 'exit':
        this.#finish(SESSION_ENDED, { exit: typeof code === 'number' ? code : Number.NaN })
        return
      case 'error':
        this.#finish(SESSION_ENDED, { refusal: typeof sentence === 'string' ? sentence : 'refused' })
        return
      default:
      // A word of a newer host.
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

  /** In place of a line. */
  #refusedReply(): EndDetails {
    const { reply } = this.#handshake
    return reply === undefined ? {} : { refusal: formatRefusal(this.#at, reply), status: reply.status }
  }
}

function closeReason(code: number, reason: string, { failure: trouble }: DialHandshake): string {
  if (trouble !== undefined) return trouble
  if (reason !== '') return reason.slice(0, REASON_CHARS_MAX)
  return code === 1006 ? 'the line broke' : `the host closed the line (${code})`
}
