/** RoutedSocket is the socket listener's handle on one connection: what arrives takes its turn, and then its way. */
import type { WorkerReceiver } from '../../core/connection-ports.ts'
import type { Log } from '../../core/ports.ts'
import { BUG_MESSAGES } from '../runtime/bug-messages.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { FrameTurns } from './frame-turns.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'

export interface FrameRoutes {
  receive(connection: WorkerConnection, text: string): void
  refuseUnreadable(connection: WorkerConnection, reason: string): void
  onClosed(connection: WorkerConnection): void
  frameBytesMax(connection: WorkerConnection): number
}

export interface RoutedSocketPorts {
  readonly log: Log
  readonly timers: Pick<MonotonicTimers, 'now'>
  readonly turns: FrameTurns
  readonly connections: Pick<WorkerConnections, 'closeForRetry'>
}

export class RoutedSocket implements WorkerReceiver {
  readonly #routes: FrameRoutes
  readonly #connection: WorkerConnection
  readonly #ports: RoutedSocketPorts

  constructor(routes: FrameRoutes, connection: WorkerConnection, ports: RoutedSocketPorts) {
    this.#routes = routes
    this.#connection = connection
    this.#ports = ports
  }

  onText(text: string): void {
    if (this.#connection.isClosing) return
    this.#connection.lastFrameAt = this.#ports.timers.now()
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
    this.#ports.turns.run(chars, () => this.#guard(handle))
  }

  /** Never throws, because an error in a later turn would end the process. */
  #guard(handle: () => void): void {
    try {
      handle()
    } catch (err) {
      this.#ports.log.error({ err }, BUG_MESSAGES.inputFailed)
      if (!this.#connection.isClosing)
        this.#ports.connections.closeForRetry(this.#connection, BUG_MESSAGES.inputFailed)
    }
  }
}
