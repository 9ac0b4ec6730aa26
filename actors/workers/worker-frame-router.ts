/**
 * WorkerFrameRouter reads the frames of workers and passes each to the part of the host that handles it.
 *
 * The first frame of a connection goes to the worker registration, numbered reports go to the frame receiver. Only the
 * current connection of a worker is read; frames on a closing connection are ignored.
 */
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import type { Meters } from '../../core/ports/log.ts'
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
import type { HostContext } from '../host-context.ts'
import type { LeaseEvent } from '../leases/lease.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import { Counter } from '../runtime/counter.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { type FrameTurns, RoutedSocket } from './frame-turns.ts'
import type { Heartbeats } from './heartbeats.ts'
import type { LeaseReconciliation } from './lease-reconciliation.ts'
import { UnleasedUsage } from './unleased-usage.ts'
import type { WorkerConnection } from './worker-connections.ts'
import type { WorkerRegistration } from './worker-registration.ts'

type RouterModules = Pick<ModuleViews, 'workers' | 'leases' | 'terminals' | 'runRecords' | 'trustedClock'>

/** The parts of the worker channel itself. */
interface ChannelParts {
  readonly registration: WorkerRegistration
  readonly heartbeats: Heartbeats
  readonly reconciliation: LeaseReconciliation
  readonly turns: FrameTurns
}

export class WorkerFrameRouter {
  readonly #context: HostContext
  readonly #modules: RouterModules
  readonly #parts: ChannelParts
  readonly #unleasedUsage: UnleasedUsage
  readonly #frameCounts = new Counter('frames_total', 'type')

  constructor(context: HostContext, modules: RouterModules, parts: ChannelParts) {
    this.#context = context
    this.#modules = modules
    this.#parts = parts
    this.#unleasedUsage = new UnleasedUsage(context, modules)
  }

  reportMetrics(meters: Meters): void {
    this.#frameCounts.report(meters)
  }

  connect(link: WorkerSender, proof?: string): Result<WorkerReceiver> {
    const { connections } = this.#modules.workers
    const connected = connections.connect(link, proof)
    if (!connected.ok) return connected
    return yes(new RoutedSocket(this, connected.value, this.#context, this.#parts.turns, connections))
  }

  onClosed(connection: WorkerConnection): void {
    this.#modules.workers.connections.onClosed(connection)
  }

  frameBytesMax(connection: WorkerConnection): number {
    return connection.workerId === undefined ? WORKER_UNREGISTERED_FRAME_BYTES_MAX : WORKER_FRAME_BYTES_MAX
  }

  receive(connection: WorkerConnection, text: string): void {
    if (connection.isClosing) return
    if (text.length > this.frameBytesMax(connection)) {
      this.#modules.workers.connections.refuse(
        connection,
        'malformed',
        `a frame has at most ${this.frameBytesMax(connection)} bytes`,
      )
      return
    }
    if (connection.workerId === undefined)
      this.#context.system.attribute('frame', 'register', () =>
        this.#parts.registration.onFirstFrame(connection, text),
      )
    else this.#receiveRegistered(connection, connection.workerId, text)
  }

  refuseUnreadable(connection: WorkerConnection, reason: string): void {
    if (!connection.isClosing) this.#modules.workers.connections.refuse(connection, 'malformed', reason)
  }

  #receiveRegistered(connection: WorkerConnection, workerId: string, text: string): void {
    const worker = this.#modules.workers.registry.get(workerId)
    if (worker === undefined || worker.connection?.number !== connection.number) return
    worker.lastFrameAt = connection.lastFrameAt
    const terminalData = readAttachData(text)
    if (terminalData !== undefined) {
      this.#frameCounts.add('attach-data')
      this.#modules.terminals.sessions.onOutput(worker.id, terminalData)
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
      this.#modules.workers.connections.refuse(connection, 'malformed', read.error)
      return
    }
    this.#frameCounts.add(read.value.type)
    const frame = read.value
    this.#context.inspection.workerActors.onFrameReceived(worker.id)
    this.#context.system.attribute('frame', frame.type, () =>
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
        if (!this.#modules.leases.frameReceiver.receiveFrame(worker.id, frame, bytes))
          this.#parts.reconciliation.answerStale(connection, frame.leaseId)
        return
      case 'run-usage-snapshot':
        this.#onUsage(connection, worker, frame, bytes)
        return
      case 'lease-costs':
        this.#onCosts(worker, frame)
        return
      case 'heartbeat':
        this.#parts.heartbeats.onHeartbeat(connection, worker, frame)
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
        this.#modules.terminals.sessions.onFrame(worker.id, frame)
        return
      case 'actor-states':
        this.#context.inspection.workerActors.onStates(worker.id, frame)
        return
      case 'register':
      // Reading refuses it: the connection is registered already.
    }
  }

  #onAccepted(connection: WorkerConnection, worker: EnrolledWorker, leaseId: string): void {
    const event: LeaseEvent = { type: 'accepted', at: this.#context.instant(), workerName: worker.name }
    this.#parts.reconciliation.sendLeaseEvent(connection, worker, leaseId, event)
  }

  #onRejected(
    connection: WorkerConnection,
    worker: EnrolledWorker,
    frame: WorkerFrameOf<'dispatch-rejected'>,
  ): void {
    const hadLease = worker.leases.has(frame.leaseId)
    this.#parts.reconciliation.sendLeaseEvent(connection, worker, frame.leaseId, {
      type: 'rejected',
      at: this.#context.instant(),
      reason: frame.reason,
    })
    // An accepted lease stays, so its late rejection must not pause the worker.
    if (hadLease && !worker.leases.has(frame.leaseId))
      this.#modules.workers.dispatchBackoff.onRejected(worker, frame.reason)
  }

  // ---- expired sandboxes -------------------------------------------------------------------------------------------

  /** Names the sandboxes whose time is over by the host's clock. A worker without an answer keeps its sandbox and asks again. */
  #onExpired(workerId: string, sandboxes: readonly ExpiredSandbox[]): void {
    const { workers, terminals, trustedClock } = this.#modules
    const now = trustedClock.now()
    if (now === undefined) return
    for (const { runId, retainedUntil } of sandboxes)
      if (
        !terminals.sessions.isBooted(runId) &&
        mayDiscardExpired(this.#findRun(runId), { workerId, retainedUntil, now })
      )
        workers.connections.sendToWorker(workerId, { type: 'discard', runId })
  }

  #findRun(runId: string) {
    const context = this.#context.system.peek(RUN, runId)?.context
    return context?.run ?? this.#modules.runRecords.finishedRuns.readable(runId)
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
      if (!this.#modules.leases.frameReceiver.receiveFrame(worker.id, { ...frame, leaseId, seq }, bytes))
        this.#parts.reconciliation.answerStale(connection, leaseId)
      return
    }
    this.#unleasedUsage.receive(worker, frame.snapshot, endedLeaseId)
  }

  #onCosts(worker: EnrolledWorker, frame: WorkerFrameOf<'lease-costs'>): void {
    const { leases, workers } = this.#modules
    this.#unleasedUsage.onceStored(frame.leaseId, () => {
      // The worker may be revoked meanwhile.
      if (workers.registry.get(worker.id) === worker) leases.settlements.receive(worker, frame)
    })
  }
}
