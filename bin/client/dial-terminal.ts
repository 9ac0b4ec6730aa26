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
import { refusalIn } from './ask-host.ts'
import { Handshake } from './dial-handshake.ts'
import type { HostAt } from './find-host.ts'

/** How a line ended. */
export interface LineOver {
  /** The session's process has ended, with this. */
  readonly exit?: number
  /** The sentence why there is no session, or no line. */
  readonly refusal?: string
  /** The status that was answered in place of a line. */
  readonly status?: number
  /** Otherwise: what became of the line. */
  readonly reason: string
}

export interface TerminalEar {
  opened(): void
  printed(data: string): void
  over(over: LineOver): void
}

export interface TerminalLine {
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
const SAID = 'the host said so'

export function dialTerminal(
  at: HostAt,
  runId: string,
  clock: Pick<Clock, 'after'>,
  ear: TerminalEar,
): TerminalLine {
  return new Line(at, runId, clock, ear)
}

type Verdict = Pick<LineOver, 'exit' | 'refusal' | 'status'>

class Line implements TerminalLine {
  readonly #at: HostAt
  readonly #handshake = new Handshake()
  readonly #clock: Pick<Clock, 'after'>
  readonly #ear: TerminalEar
  readonly #socket: WebSocket
  #timer: Cancel
  /** Nothing more is heard of the session. */
  #isDone = false
  #isOver = false

  constructor(at: HostAt, runId: string, clock: Pick<Clock, 'after'>, ear: TerminalEar) {
    this.#at = at
    this.#clock = clock
    this.#ear = ear
    this.#timer = clock.after(CONNECT_MS_MAX, () => this.#give(`no answer within ${CONNECT_MS_MAX / 1000} s`))
    const url = `${at.url.replace(/^http/, 'ws')}/ws/runs/${encodeURIComponent(runId)}/attach`
    const headers = { authorization: `Bearer ${at.token}` }
    const socket = new WebSocket(url, { headers, dispatcher: this.#handshake })
    socket.addEventListener('open', () => this.#opened())
    socket.addEventListener('message', ({ data }) => this.#heard(data))
    // What went wrong is told with the close event, which always follows.
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', ({ code, reason }) => this.#give(why(code, reason, this.#handshake)))
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
    this.#timer = this.#clock.after(CLOSE_MS_MAX, () => this.#give('closed'))
    this.#socket.close()
  }

  #opened(): void {
    if (this.#isDone) return
    this.#timer()
    this.#ear.opened()
  }

  #heard(message: unknown): void {
    if (this.#isDone) return
    const parsed = typeof message === 'string' ? parseJson(message) : undefined
    const frame: object = parsed?.ok === true ? Object(parsed.value) : {}
    const [data, code, sentence] = ['data', 'code', 'message'].map((field) => Reflect.get(frame, field))
    switch (Reflect.get(frame, 'type')) {
      case 'data':
        if (typeof data === 'string') this.#ear.printed(data)
        return
      case 'exit':
        this.#give(SAID, { exit: typeof code === 'number' ? code : Number.NaN })
        return
      case 'error':
        this.#give(SAID, { refusal: typeof sentence === 'string' ? sentence : 'refused' })
        return
      default:
      // A word of a newer host.
    }
  }

  #give(reason: string, verdict: Verdict = this.#answered()): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#isDone = true
    this.#timer()
    if (this.#socket.readyState < WebSocket.CLOSING) this.#socket.close()
    this.#handshake.leave()
    this.#ear.over({ ...verdict, reason })
  }

  /** In place of a line. */
  #answered(): Verdict {
    const { reply } = this.#handshake
    return reply === undefined ? {} : { refusal: refusalIn(this.#at, reply), status: reply.status }
  }
}

function why(code: number, reason: string, { trouble }: Handshake): string {
  if (trouble !== undefined) return trouble
  if (reason !== '') return reason.slice(0, REASON_CHARS_MAX)
  return code === 1006 ? 'the line broke' : `the host closed the line (${code})`
}
