/**
 * FrameTurns spreads frames that arrive together over several turns of the event loop. A thousand workers may report in
 * the same moment, and people and timers need not wait until the last of their frames is handled.
 *
 * Everything keeps its order, also the end of a connection behind its frames.
 */

import type { Clock } from '../../core/ports/clock.ts'
import type { WorkerReceiver } from '../../core/ports/connections.ts'
import type { HostContext } from '../host-context.ts'
import { BUG_MESSAGES } from '../runtime/commit-loop.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'

export const FRAMES_TURN_MS_MAX = 15
/** With more waiting, all are handled at once: a socket that is read late makes its sender wait. */
export const WAITING_CHARS_MAX = 16 * 1024 * 1024
/** Keeping a frame costs so much besides its text, so many short frames are limited as well. */
export const WAITING_FRAME_CHARS = 256

interface WaitingFrame {
  readonly handle: () => void
  readonly chars: number
}

export class FrameTurns {
  readonly #clock: Pick<Clock, 'monotonic' | 'after' | 'endOfTick'>
  /** When the first frame of this turn was handled. */
  #began: number | undefined
  #waiting: WaitingFrame[] = []
  /** How many of `#waiting` are handled already. */
  #handledCount = 0
  #waitingChars = 0
  #isContinuing = false
  readonly #endTurn = (): void => {
    this.#began = undefined
  }

  constructor(clock: Pick<Clock, 'monotonic' | 'after' | 'endOfTick'>) {
    this.#clock = clock
  }

  get waitingCount(): number {
    return this.#waiting.length - this.#handledCount
  }

  /** Drops what waits when the host stops: workers report again what was not acknowledged. */
  stop(): void {
    this.#waiting = []
    this.#handledCount = 0
    this.#waitingChars = 0
  }

  /** Handles a frame now, or in a later turn behind those that wait. */
  run(textChars: number, handle: () => void): void {
    if (this.waitingCount === 0 && this.#hasTime()) {
      handle()
      return
    }
    const chars = textChars + WAITING_FRAME_CHARS
    this.#waiting.push({ handle, chars })
    this.#waitingChars += chars
    if (this.#waitingChars > WAITING_CHARS_MAX) this.#handleWaiting(() => true)
    else this.#continueLater()
  }

  #hasTime(): boolean {
    const now = this.#clock.monotonic()
    if (this.#began === undefined) {
      this.#began = now
      this.#clock.endOfTick(this.#endTurn)
    }
    return now - this.#began < FRAMES_TURN_MS_MAX
  }

  #continueLater(): void {
    if (this.#isContinuing) return
    this.#isContinuing = true
    this.#clock.after(0, () => {
      this.#isContinuing = false
      this.#handleWaiting(() => this.#hasTime())
      if (this.waitingCount > 0) this.#continueLater()
    })
  }

  /** Each frame counts as handled before it is: handling it may end a connection, which calls `run`, or stop the host. */
  #handleWaiting(mayGoOn: () => boolean): void {
    while (this.waitingCount > 0 && mayGoOn()) {
      const next = this.#waiting[this.#handledCount] as WaitingFrame
      this.#handledCount += 1
      this.#waitingChars -= next.chars
      next.handle()
    }
    this.#waiting = this.#waiting.slice(this.#handledCount)
    this.#handledCount = 0
  }
}

interface FrameRoutes {
  receive(connection: WorkerConnection, text: string): void
  refuseUnreadable(connection: WorkerConnection, reason: string): void
  onClosed(connection: WorkerConnection): void
  frameBytesMax(connection: WorkerConnection): number
}

/** RoutedSocket is the socket listener's handle on one connection: what arrives takes its turn, and then its way. */
export class RoutedSocket implements WorkerReceiver {
  readonly #routes: FrameRoutes
  readonly #connection: WorkerConnection
  readonly #context: Pick<HostContext, 'log' | 'timers'>
  readonly #turns: FrameTurns
  readonly #connections: Pick<WorkerConnections, 'closeForRetry'>

  constructor(
    routes: FrameRoutes,
    connection: WorkerConnection,
    context: Pick<HostContext, 'log' | 'timers'>,
    turns: FrameTurns,
    connections: Pick<WorkerConnections, 'closeForRetry'>,
  ) {
    this.#routes = routes
    this.#connection = connection
    this.#context = context
    this.#turns = turns
    this.#connections = connections
  }

  onText(text: string): void {
    if (this.#connection.isClosing) return
    this.#connection.lastFrameAt = this.#context.timers.now()
    this.#inTurn(text.length, () => this.#routes.receive(this.#connection, text))
  }

  onUnreadable(reason: string): void {
    if (this.#connection.isClosing) return
    this.#inTurn(0, () => this.#routes.refuseUnreadable(this.#connection, reason))
  }

  onClosed(): void {
    this.#inTurn(0, () => this.#routes.onClosed(this.#connection))
  }

  frameBytesMax(): number {
    return this.#routes.frameBytesMax(this.#connection)
  }

  #inTurn(chars: number, handle: () => void): void {
    this.#turns.run(chars, () => this.#guard(handle))
  }

  /** Never throws, because an error in a later turn would end the process. */
  #guard(handle: () => void): void {
    try {
      handle()
    } catch (err) {
      this.#context.log.error({ err }, BUG_MESSAGES.inputFailed)
      if (!this.#connection.isClosing)
        this.#connections.closeForRetry(this.#connection, BUG_MESSAGES.inputFailed)
    }
  }
}
