/**
 * Stays attached to a session across lost connections.
 *
 * The host sends the whole screen on every new connection, so after a reconnect nothing is missing or repeated. A
 * restarted host is found at its new address. An attachment ends when the session ends, a permanent refusal arrives,
 * the host stays away, or the person detaches.
 */
import type { AttachInput, AttachOutput } from '../protocol/dashboard.ts'
import { TerminalOutputFilter } from '../protocol/terminal-output-filter.ts'
import { fillPath } from './client.ts'
import type { ClientSocket, DialSocket, HostAddress, SocketEnd } from './connection.ts'
import { describeRefusal, HostNotFound, withoutControls } from './errors.ts'
import type { InputClock, InputConnection, InputSender, WindowSize } from './input-sender.ts'
import { REQUEST_LINES } from './request-lines.ts'

export type AttachmentEnd =
  /** The session's process ended with this exit code. */
  | { readonly is: 'exited'; readonly code: number }
  | { readonly is: 'refused'; readonly message: string }
  | { readonly is: 'unreachable'; readonly message: string }
  | { readonly is: 'left' }

export interface AttachmentClock extends InputClock {
  /** Milliseconds that never go back. */
  monotonic(): number
}

export interface AttachmentOptions {
  readonly runId: string
  readonly dial: DialSocket
  /** Called before each connection. */
  readonly findHost: () => Promise<HostAddress>
  readonly clock: AttachmentClock
  readonly inputSender: InputSender
  readonly size: () => WindowSize
  readonly draw: (text: string) => void
  /** Prints a message for the person, outside the session's output. */
  readonly note: (text: string) => void
  /** Aborted when the person detaches. */
  readonly leave: AbortSignal
  /** Registers a listener for redraw requests; a redraw needs a new connection. */
  readonly onRedrawNeeded: (listener: () => void) => () => void
  /** Waits for an absent host without end. */
  readonly isPatient?: true
}

/** The pauses between failed attempts; together longer than a host takes to restart. */
const RETRY_PAUSES_MS = [200, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]
const PATIENT_PAUSE_MS = 5_000
/** A connection that lasted this long resets the count of failures. */
const STABLE_MS = 5_000

/** The outcome of one connection. */
interface ConnectionResult {
  readonly end: ConnectionEnd
  readonly ms: number
  /** Output of the session was received. */
  readonly hasOutput: boolean
  /** The connection was closed on purpose, to request a redraw. */
  readonly isRedraw: boolean
  /** The host is named by the environment, so its address and token never change. */
  readonly isFromEnvironment: boolean
}

export async function stayAttached(options: AttachmentOptions): Promise<AttachmentEnd> {
  let failures = 0
  let wasShown = false
  let lastRefusal: string | undefined
  for (;;) {
    const result = await connectOnce(options)
    if (options.leave.aborted) return { is: 'left' }
    const isAfterBreak = wasShown && !result.hasOutput
    wasShown ||= result.hasOutput
    if (result.isRedraw) continue
    failures = result.hasOutput && result.ms >= STABLE_MS ? 1 : failures + 1
    const ms = RETRY_PAUSES_MS[failures - 1]
    const end = attachmentEndOf(result, { isAfterBreak, isLast: ms === undefined })
    if (end !== undefined) return end
    const message = describeEnd(result.end)
    if (ms === undefined && options.isPatient !== true) return { is: 'unreachable', message }
    const isNew = result.hasOutput || failures === 1 || result.end.refusal !== lastRefusal
    lastRefusal = result.end.refusal
    if (isNew) options.note(`${message}; connecting again`)
    await waitOrLeave(ms ?? PATIENT_PAUSE_MS, options)
  }
}

interface RetryProgress {
  /** Earlier connections had output, and this one had none. */
  readonly isAfterBreak: boolean
  /** No further attempt follows. */
  readonly isLast: boolean
}

/** Returns how the attachment ends; undefined when another attempt may succeed. */
function attachmentEndOf(
  { end, isFromEnvironment }: ConnectionResult,
  { isAfterBreak, isLast }: RetryProgress,
): AttachmentEnd | undefined {
  const { exit, refusal, status } = end
  if (exit !== undefined) return { is: 'exited', code: exit }
  if (refusal === undefined || isTemporary(status)) return undefined
  if (!isLast && isAfterBreak && mayRecover(status, isFromEnvironment)) return undefined
  return { is: 'refused', message: withoutControls(refusal) }
}

/** Rate limits and server errors (a proxy without its host) are temporary. */
const isTemporary = (status: number | undefined): boolean =>
  status !== undefined && (status >= 500 || [408, 425, 429].includes(status))

/**
 * Right after a lost connection a refusal may be temporary: the worker has to reconnect to the host, too, and a restarted
 * host has a new token in its launch file.
 */
function mayRecover(status: number | undefined, isFromEnvironment: boolean): boolean {
  return status === undefined || status === 409 || (status === 401 && !isFromEnvironment)
}

const describeEnd = ({ refusal, reason }: ConnectionEnd): string =>
  withoutControls(refusal ?? `the connection to the host was lost (${reason})`)

async function connectOnce(options: AttachmentOptions): Promise<ConnectionResult> {
  try {
    return await runConnection(options, await options.findHost())
  } catch (error) {
    if (!(error instanceof HostNotFound)) throw error
    return {
      end: { reason: error.message },
      ms: 0,
      hasOutput: false,
      isRedraw: false,
      isFromEnvironment: false,
    }
  }
}

function runConnection(options: AttachmentOptions, address: HostAddress): Promise<ConnectionResult> {
  const { runId, dial, clock, inputSender, size, draw, leave, onRedrawNeeded } = options
  const began = clock.monotonic()
  // A new filter, because an unfinished escape sequence of the last connection does not continue here.
  const filter = new TerminalOutputFilter()
  let [hasOutput, isRedraw] = [false, false]
  return new Promise((resolve) => {
    const listener: TerminalListener = {
      onOpen: () => inputSender.connect(connection, size()),
      onOutput(data) {
        hasOutput = true
        draw(filter.filter(data))
      },
      onEnd(end) {
        leave.removeEventListener('abort', disconnect)
        stopListening()
        inputSender.disconnect()
        const ms = clock.monotonic() - began
        resolve({
          end,
          ms,
          hasOutput,
          isRedraw: isRedraw && hasNoVerdict(end),
          isFromEnvironment: address.isFromEnvironment === true,
        })
      },
    }
    const connection = new TerminalConnection(dial, address, runId, listener)
    const disconnect = () => connection.close()
    const stopListening = onRedrawNeeded(() => {
      isRedraw = true
      disconnect()
    })
    leave.addEventListener('abort', disconnect)
    if (leave.aborted) disconnect()
  })
}

const hasNoVerdict = ({ exit, refusal }: ConnectionEnd): boolean =>
  exit === undefined && refusal === undefined

/** Resolves after the pause, or as soon as the person detaches. */
function waitOrLeave(ms: number, { clock, leave }: AttachmentOptions): Promise<void> {
  return new Promise((resolve) => {
    if (leave.aborted) return resolve()
    const cancel = clock.after(ms, done)
    leave.addEventListener('abort', done)
    function done(): void {
      cancel()
      leave.removeEventListener('abort', done)
      resolve()
    }
  })
}

// ---- one connection ----------------------------------------------------------------------------------------------

/** How a connection ended. */
interface ConnectionEnd {
  /** The exit code of the session's process. */
  readonly exit?: number
  /** The message why there is no session or no connection. */
  readonly refusal?: string
  /** The HTTP status of a refused connection. */
  readonly status?: number
  /** Why the connection ended. */
  readonly reason: string
}

interface TerminalListener {
  onOpen(): void
  onOutput(data: string): void
  onEnd(over: ConnectionEnd): void
}

/** The reason of connections that the session itself has ended. */
const SESSION_ENDED = 'the host ended the session'
const SOCKET_PATH = REQUEST_LINES.attachSocket.split(' ')[1] ?? ''

/**
 * Connects to a run's attach socket: receives output, sends input.
 *
 * However a connection ends (no host, a silent handshake, a cut cable), the listener's `onEnd` is called exactly once,
 * and nothing after it. No method throws, and the listener is not called before the constructor has returned.
 */
class TerminalConnection implements InputConnection {
  readonly #listener: TerminalListener
  readonly #socket: ClientSocket
  #isOver = false

  constructor(dial: DialSocket, at: HostAddress, runId: string, listener: TerminalListener) {
    this.#listener = listener
    this.#socket = dial(at, fillPath(SOCKET_PATH, { id: runId }), {
      onOpen: () => listener.onOpen(),
      onText: (text) => this.#onText(text),
      onEnd: (end) => this.#finish(connectionEnd(at, end)),
    })
  }

  send(frame: AttachInput): void {
    this.#socket.send(JSON.stringify(frame))
  }

  backlog(): number {
    return this.#socket.backlog()
  }

  close(): void {
    this.#socket.close()
  }

  #onText(text: string): void {
    if (this.#isOver) return
    const frame = readFrame(text)
    switch (frame?.type) {
      case 'data':
        this.#listener.onOutput(frame.data)
        return
      case 'exit':
        this.#finish({ exit: frame.code, reason: SESSION_ENDED })
        return
      case 'error':
        this.#finish({ refusal: frame.message, reason: SESSION_ENDED })
        return
      default:
      // Ignore frames of a newer host.
    }
  }

  #finish(end: ConnectionEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#socket.close()
    this.#listener.onEnd(end)
  }
}

function connectionEnd(at: HostAddress, { reply, reason }: SocketEnd): ConnectionEnd {
  if (reply === undefined) return { reason }
  const { message, cure } = describeRefusal(at, reply)
  return { refusal: cure === undefined ? message : `${message}; ${cure}`, status: reply.status, reason }
}

/** Returns undefined for a text that no host sends. */
function readFrame(text: string): AttachOutput | undefined {
  try {
    // The host checks what it sends.
    return Object(JSON.parse(text)) as AttachOutput
  } catch {
    return undefined
  }
}
