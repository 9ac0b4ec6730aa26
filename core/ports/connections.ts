/**
 * The ports of connections are the two ends of a socket: what the host asks of the socket, and what the socket reports
 * to the host. Listeners implement the first and call the second. A push to many sockets is turned into JSON once.
 */
import type { AttachOutput, DashboardPush } from '../../protocol/dashboard.ts'
import type { InspectFrame, InspectRequest } from '../../protocol/inspection.ts'

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

// ---- pushes ------------------------------------------------------------------------------------------------------

export interface EventPush {
  readonly type: 'run-event'
  readonly runId: string
  readonly json: Uint8Array
}

/**
 * A push on its way to the listeners. Events of runs are so many that each comes as the JSON of its push: nobody here
 * reads them as objects.
 */
export type OutgoingPush = Exclude<DashboardPush, { readonly type: 'run-event' }> | EventPush

const [HEAD, TAIL] = ['{"type":"run-event","event":', '}'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
]

/** `event`: its JSON. */
export function createEventPush(runId: string, event: Uint8Array): EventPush {
  const json = Buffer.allocUnsafe(HEAD.length + event.length + TAIL.length)
  json.set(HEAD, 0)
  json.set(event, HEAD.length)
  json.set(TAIL, HEAD.length + event.length)
  return { type: 'run-event', runId, json }
}
