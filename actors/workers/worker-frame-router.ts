/**
 * WorkerFrameRouter reads the frames of workers and passes each to the part of the host that handles it.
 *
 * The first frame of a connection goes to the worker registration, numbered reports go to the frame receiver. Only the
 * current connection of a worker is read; frames on a closing connection are ignored.
 */
import type { WorkerReceiver, WorkerSender } from '../../core/connection-ports.ts'
import type { Log, Meters, UsageArchive } from '../../core/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import { mayDiscardExpired } from '../../core/run/permission.ts'
import { readAttachData } from '../../protocol/attach-text.ts'
import {
  type ExpiredSandbox,
  gapOfUnknownFrame,
  readWorkerFrame,
  type WorkerFrame,
  type WorkerFrameOf,
} from '../../protocol/frames.ts'
import { WORKER_FRAME_BYTES_MAX, WORKER_UNREGISTERED_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import type { TrustedClock } from '../clock/trusted-clock.ts'
import type { HostContext } from '../host-context.ts'
import type { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import type { LeaseSettlements } from '../leases/lease-settlements.ts'
import type { FinishedRuns } from '../runs/finished-runs.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import { BUG_MESSAGES } from '../runtime/commit-loop.ts'
import { Counter } from '../runtime/counter.ts'
import type { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import type { SessionCosts } from '../terminals/session-costs.ts'
import type { TerminalSessions } from '../terminals/terminal-sessions.ts'
import type { DispatchBackoff } from './dispatch-backoff.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import type { FrameTurns } from './frame-turns.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import { UnleasedUsage } from './unleased-usage.ts'
import type { WorkerConnection, WorkerConnections } from './worker-connections.ts'
import type { WorkerRegistration } from './worker-registration.ts'
import type { WorkerRegistry } from './worker-registry.ts'

export interface WorkerFrameRouterPorts
  extends Pick<HostContext, 'instant' | 'system' | 'inspection' | 'log' | 'timers'> {
  readonly workers: WorkerRegistry
  readonly frameReceiver: FrameReceiver
  readonly connections: WorkerConnections
  readonly registration: WorkerRegistration
  readonly heartbeats: Heartbeats
  readonly reconciliation: LeaseReconciliation
  readonly dispatchBackoff: DispatchBackoff
  readonly usage: UsageArchive
  readonly terminals: TerminalSessions
  readonly sessionCosts: SessionCosts
  readonly settlements: LeaseSettlements
  readonly turns: FrameTurns
  readonly finishedRuns: FinishedRuns
  readonly trustedClock: TrustedClock
}

export class WorkerFrameRouter {
  readonly #ports: WorkerFrameRouterPorts
  readonly #unleasedUsage: UnleasedUsage
  readonly #frameCounts = new Counter('frames_total', 'type')

  constructor(ports: WorkerFrameRouterPorts) {
    this.#ports = ports
    this.#unleasedUsage = new UnleasedUsage(ports)
  }

  reportMetrics(meters: Meters): void {
    this.#frameCounts.report(meters)
  }

  connect(link: WorkerSender, proof?: string): Result<WorkerReceiver> {
    const connected = this.#ports.connections.connect(link, proof)
    return connected.ok ? yes(new RoutedSocket(this, connected.value, this.#ports)) : connected
  }

  onClosed(connection: WorkerConnection): void {
    this.#ports.connections.onClosed(connection)
  }

  frameBytesMax(connection: WorkerConnection): number {
    return connection.workerId === undefined ? WORKER_UNREGISTERED_FRAME_BYTES_MAX : WORKER_FRAME_BYTES_MAX
  }

  receive(connection: WorkerConnection, text: string): void {
    if (connection.isClosing) return
    if (text.length > this.frameBytesMax(connection)) {
      this.#ports.connections.refuse(
        connection,
        'malformed',
        `a frame has at most ${this.frameBytesMax(connection)} bytes`,
      )
      return
    }
    if (connection.workerId === undefined)
      this.#ports.system.attribute('frame', 'register', () =>
        this.#ports.registration.onFirstFrame(connection, text),
      )
    else this.#receiveRegistered(connection, connection.workerId, text)
  }

  refuseUnreadable(connection: WorkerConnection, reason: string): void {
    if (!connection.isClosing) this.#ports.connections.refuse(connection, 'malformed', reason)
  }

  #receiveRegistered(connection: WorkerConnection, workerId: string, text: string): void {
    const { workers } = this.#ports
    const worker = workers.get(workerId)
    if (worker === undefined || worker.connection?.number !== connection.number) return
    worker.lastFrameAt = connection.lastFrameAt
    const terminalData = readAttachData(text)
    if (terminalData !== undefined) {
      this.#frameCounts.add('attach-data')
      this.#ports.terminals.onOutput(worker.id, terminalData)
      return
    }
    const read = readWorkerFrame(text, true)
    // A newer worker may send frames that this version does not know; the line stays open.
    if (!read.ok && read.isUnknownType) {
      this.#frameCounts.add('unknown')
      const skipped = gapOfUnknownFrame(text)
      if (skipped !== undefined && worker.leases.has(skipped.leaseId))
        this.#dispatch(connection, worker, skipped, text.length)
      return
    }
    if (!read.ok) {
      this.#frameCounts.add('malformed')
      this.#ports.connections.refuse(connection, 'malformed', read.error)
      return
    }
    this.#frameCounts.add(read.value.type)
    const frame = read.value
    this.#ports.inspection.workerActors.onFrameReceived(worker.id)
    this.#ports.system.attribute('frame', frame.type, () =>
      this.#dispatch(connection, worker, frame, text.length),
    )
  }

  #dispatch(connection: WorkerConnection, worker: EnrolledWorker, frame: WorkerFrame, bytes: number): void {
    switch (frame.type) {
      case 'run-event':
      case 'run-patch':
      case 'run-artifact':
      case 'run-memories':
      case 'run-complete':
      case 'lease-gap':
        if (!this.#ports.frameReceiver.receiveFrame(worker.id, frame, bytes))
          this.#ports.reconciliation.answerStale(connection, frame.leaseId)
        return
      case 'run-usage-snapshot':
        this.#onUsage(connection, worker, frame, bytes)
        return
      case 'lease-costs':
        this.#onCosts(worker, frame)
        return
      case 'heartbeat':
        this.#ports.heartbeats.onHeartbeat(connection, worker, frame)
        return
      case 'dispatch-accepted':
        this.#onAccepted(connection, worker, frame.leaseId)
        return
      case 'dispatch-rejected':
        this.#onRejected(connection, worker, frame)
        return
      case 'expired-sandboxes':
        this.#onExpired(worker.id, frame.sandboxes)
        return
      case 'sandbox-ready':
      case 'sandbox-failed':
      case 'attach-data':
      case 'attach-exit':
      case 'attach-error':
      case 'attach-taken':
        this.#ports.terminals.onFrame(worker.id, frame)
        return
      case 'actor-states':
        this.#ports.inspection.workerActors.onStates(worker.id, frame)
        return
      case 'register':
      // Reading refuses it: the connection is registered already.
    }
  }

  #onAccepted(connection: WorkerConnection, worker: EnrolledWorker, leaseId: string): void {
    const { instant, reconciliation } = this.#ports
    const event: LeaseEvent = { type: 'accepted', at: instant(), workerName: worker.name }
    reconciliation.sendLeaseEvent(connection, worker, leaseId, event)
  }

  #onRejected(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    frame: WorkerFrameOf<'dispatch-rejected'>,
  ): void {
    const hadLease = worker.leases.has(frame.leaseId)
    this.#ports.reconciliation.sendLeaseEvent(connection, worker, frame.leaseId, {
      type: 'rejected',
      at: this.#ports.instant(),
      reason: frame.reason,
    })
    // An accepted lease stays, so its late rejection must not pause the worker.
    if (hadLease && !worker.leases.has(frame.leaseId))
      this.#ports.dispatchBackoff.onRejected(worker, frame.reason)
  }

  // ---- expired sandboxes -------------------------------------------------------------------------------------------

  /** Names the sandboxes whose time is over by the host's clock. A worker without an answer keeps its sandbox and asks again. */
  #onExpired(workerId: string, sandboxes: readonly ExpiredSandbox[]): void {
    const { connections, terminals, trustedClock } = this.#ports
    const now = trustedClock.now()
    if (now === undefined) return
    for (const { runId, retainedUntil } of sandboxes)
      if (
        !terminals.isBooted(runId) &&
        mayDiscardExpired(this.#findRun(runId), { workerId, retainedUntil, now })
      )
        connections.sendToWorker(workerId, { type: 'discard', runId })
  }

  #findRun(runId: string) {
    const context = this.#ports.system.peek(RUN, runId)?.context as RunContext | undefined
    return context?.run ?? this.#ports.finishedRuns.readable(runId)
  }

  // ---- usage -------------------------------------------------------------------------------------------------------

  #onUsage(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    frame: WorkerFrameOf<'run-usage-snapshot'>,
    bytes: number,
  ): void {
    const { leaseId, seq, endedLeaseId } = frame
    if (leaseId !== undefined && seq !== undefined) {
      if (!this.#ports.frameReceiver.receiveFrame(worker.id, { ...frame, leaseId, seq }, bytes))
        this.#ports.reconciliation.answerStale(connection, leaseId)
      return
    }
    this.#unleasedUsage.receive(worker, frame.snapshot, endedLeaseId)
  }

  #onCosts(worker: EnrolledWorker, frame: WorkerFrameOf<'lease-costs'>): void {
    const { settlements, workers } = this.#ports
    this.#unleasedUsage.onceStored(frame.leaseId, () => {
      // The worker may be revoked meanwhile.
      if (workers.get(worker.id) === worker) settlements.receive(worker, frame)
    })
  }
}

interface FrameRoutes {
  receive(connection: WorkerConnection, text: string): void
  refuseUnreadable(connection: WorkerConnection, reason: string): void
  onClosed(connection: WorkerConnection): void
  frameBytesMax(connection: WorkerConnection): number
}

interface RoutedSocketPorts {
  readonly log: Log
  readonly timers: Pick<MonotonicTimers, 'now'>
  readonly turns: FrameTurns
  readonly connections: Pick<WorkerConnections, 'closeForRetry'>
}

/** RoutedSocket is the socket listener's handle on one connection: what arrives takes its turn, and then its way. */
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
