/**
 * Connection ports are the two ends of a socket: what the host asks of the socket, and what the socket reports to the
 * host. Listeners implement the first and call the second.
 */
import type { AttachOutput } from '../protocol/dashboard.ts'
import type { InspectFrame, InspectRequest } from '../protocol/inspection.ts'

/** The socket of one terminal view. After it is closed every call does nothing. */
export interface ViewSender {
  /**
   * Answers whether the frame was taken. When too much waits already it is not, and the view is disconnected.
   *
   * @param text the same frame as JSON, from a caller that has it already
   */
  send(frame: AttachOutput, text?: string): boolean
  close(code: number, reason: string): void
}

/** Receives the reports of a terminal view's socket. No method throws. */
export interface ViewReceiver {
  onInput(data: string): void
  onResize(cols: number, rows: number): void
  onClosed(): void
}

/** The socket of one worker. After it is closed every call does nothing. */
export interface WorkerSender {
  /** The remote address, for people. */
  readonly address: string
  /** Sends one text frame. Answers whether it was taken: when too much waits already, the connection is cut. */
  send(text: string): boolean
  /** Closes after everything sent before has left. */
  close(code: number, reason: string): void
}

/** Receives the reports of a worker's socket. */
export interface WorkerReceiver {
  /** Called for each text frame of at most `frameBytesMax` bytes. Never throws. */
  onText(text: string): void
  /** A frame that is too long or not text. The connection is rejected as malformed. */
  onUnreadable(reason: string): void
  /** The connection is gone; nothing can be sent any more. */
  onClosed(): void
  /** Smaller before the worker is registered. */
  frameBytesMax(): number
}

/** The socket of one person who inspects actors. After it is closed every call does nothing. */
export interface InspectionReceiver {
  send(frame: InspectFrame): void
  /** The bytes that wait to be sent. */
  backlog(): number
  /** Nothing is collected: what has happened is sent at once, for a recording that a kill may end. */
  readonly isImmediate?: boolean
}

/** Receives the reports of that person's socket. */
export interface InspectionSession {
  follow(request: InspectRequest): void
  /** The socket has room again. */
  onDrained(): void
  close(): void
}
