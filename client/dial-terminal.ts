/**
 * Connects to a run's attach socket: receives output, sends input.
 *
 * However a connection ends (no host, a silent handshake, a cut cable), the listener's `onEnd` is called exactly once,
 * and nothing after it. No function throws, and the listener is not called before `dialTerminal` has returned.
 */

import type { AttachInput, AttachOutput } from '../protocol/dashboard.ts'
import { fillPath } from './client.ts'
import type { ClientSocket, DialSocket, HostAddress, SocketEnd } from './connection.ts'
import { describeRefusal } from './errors.ts'
import { REQUEST_LINES } from './request-lines.ts'

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

/** The reason of connections that the session itself has ended. */
const SESSION_ENDED = 'the host ended the session'
const SOCKET_PATH = REQUEST_LINES.attachSocket.split(' ')[1] ?? ''

export function dialTerminal(
  dial: DialSocket,
  at: HostAddress,
  runId: string,
  listener: TerminalListener,
): TerminalConnection {
  return new SocketTerminalConnection(dial, at, runId, listener)
}

class SocketTerminalConnection implements TerminalConnection {
  readonly #at: HostAddress
  readonly #listener: TerminalListener
  readonly #socket: ClientSocket
  #isOver = false

  constructor(dial: DialSocket, at: HostAddress, runId: string, listener: TerminalListener) {
    this.#at = at
    this.#listener = listener
    this.#socket = dial(at, fillPath(SOCKET_PATH, { id: runId }), {
      onOpen: () => listener.onOpen(),
      onText: (text) => this.#onText(text),
      onEnd: (end) => this.#finish(connectionEnd(this.#at, end)),
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

/** Undefined for what no host sends. */
function readFrame(text: string): AttachOutput | undefined {
  try {
    // The host checks what it sends.
    return Object(JSON.parse(text)) as AttachOutput
  } catch {
    return undefined
  }
}
