/**
 * The modules about workers: who is enrolled and connected, what arrives on their connections, who gets the next run,
 * and the worker that the host runs itself.
 */

import type { Clock } from '../../core/ports/clock.ts'
import { defineHostModule } from '../host-context.ts'
import { LEASE } from '../leases/lease.names.ts'
import { RUN } from '../runs/run.machine.ts'
import { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import { effectHandlers, observeKind } from '../runtime/module.ts'
import { handleTimer } from '../runtime/timer-kind.ts'
import { connectionKind, type WorkerEffect } from './connection.machine.ts'
import { DispatchBackoff, WORKER_TIMER } from './dispatch-backoff.ts'
import type { EnrolledWorker } from './enrolled-worker.ts'
import { FrameTurns } from './frame-turns.ts'
import { Heartbeats, storeLastSeenOfOnline } from './heartbeats.ts'
import { JoinKeys, PairingTokens } from './join-keys.ts'
import { LeaseReconciliation } from './lease-reconciliation.ts'
import { type LocalWorkerEffect, localWorkerKind } from './local-worker.machine.ts'
import { LocalWorkerSupervisor } from './local-worker-process.ts'
import { Scheduler } from './scheduler.ts'
import { SETBACK_TIMER, Setbacks } from './setbacks.ts'
import { CONNECTION, WORKER, workerKind } from './worker.machine.ts'
import { CONNECTION_TIMER, UnregisteredSeats, WorkerConnections } from './worker-connections.ts'
import { WorkerFrameRouter } from './worker-frame-router.ts'
import { ENROLLMENT_TIMER, EphemeralWorkers, WorkerManager } from './worker-manager.ts'
import { WorkerProofs, WorkerRegistration } from './worker-registration.ts'
import { WorkerRegistry } from './worker-registry.ts'

export interface WorkersView {
  readonly registry: WorkerRegistry
  /** Frames go out to workers here. */
  readonly connections: WorkerConnections
  readonly dispatchBackoff: DispatchBackoff
  readonly setbacks: Setbacks
  readonly pairingTokens: PairingTokens
  readonly joinKeys: JoinKeys
  readonly proofs: WorkerProofs
  readonly seats: UnregisteredSeats
  readonly undeliveredDiscards: UndeliveredDiscards
  readonly wakeTurns: WakeTurns
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly workers: WorkersView
    readonly workerChannel: Pick<WorkerFrameRouter, 'connect'>
    readonly scheduler: Scheduler
  }
}

/** Knows the enrolled workers, their connections, and which of them are not asked for a while after a refusal. */
export const workersModule = defineHostModule({
  name: 'workers',
  create(context, { troubles }) {
    const { clock, random, store, requestCommit } = context
    const registry = new WorkerRegistry()
    const seats = new UnregisteredSeats(context.timers)
    const connections = new WorkerConnections(context, registry, seats)
    const dispatchBackoff = new DispatchBackoff(context, registry, troubles)
    const setbacks = new Setbacks(context, registry)
    const undeliveredDiscards = new UndeliveredDiscards(store.database.keyValues, requestCommit)
    const pairingTokens = new PairingTokens(clock, random)
    const joinKeys = new JoinKeys({ ...context, keyValues: store.database.keyValues, workers: registry })
    return {
      view: {
        registry,
        connections,
        dispatchBackoff,
        setbacks,
        pairingTokens,
        joinKeys,
        seats,
        proofs: new WorkerProofs(context.meters, { registry, pairingTokens, joinKeys }),
        undeliveredDiscards,
        wakeTurns: new WakeTurns({ workers: registry, clock }),
      },
      participants: [undeliveredDiscards, joinKeys],
      onTimer: [
        handleTimer(CONNECTION_TIMER, (number, name) => connections.onTimer(Number(number), name)),
        handleTimer(WORKER_TIMER, (id, name) => dispatchBackoff.onTimer(id, name)),
        handleTimer(SETBACK_TIMER, (id, subject) => setbacks.onTimer(id, subject)),
      ],
      onConfigChange() {
        connections.onConfigChange()
        setbacks.clearAll()
      },
      reportGauges(meters) {
        meters.gauge('leases', registry.leaseCount)
        meters.gauge('workers_connected', registry.capacity().connected)
        seats.reportGauges(meters)
      },
      sizes: () => ({
        connections: connections.size,
        workers: registry.size,
        leases: registry.leaseCount,
      }),
    }
  },
})

/** Handles the frames of workers, and the changes of workers and connections. */
export const workerChannelModule = defineHostModule({
  name: 'workerChannel',
  kinds: [workerKind, connectionKind],
  create(context, { workers, leases, terminals, runRecords, trustedClock }) {
    const { registry, connections } = workers
    const modules = { workers, leases, terminals, runRecords, trustedClock }
    const ephemeralWorkers = new EphemeralWorkers(context, registry)
    const manager = new WorkerManager(context, modules, ephemeralWorkers, (connection) =>
      registration.sendWelcome(connection),
    )
    const reconciliation = new LeaseReconciliation(context, connections, leases.endedLeases)
    const heartbeats = new Heartbeats(context, modules, reconciliation, manager)
    const registration = new WorkerRegistration(context, modules, reconciliation, manager)
    const turns = new FrameTurns(context.clock)
    const parts = { registration, heartbeats, reconciliation, turns }
    const frameRouter = new WorkerFrameRouter(context, modules, parts)
    return {
      view: frameRouter,
      hasInput: () => turns.waitingCount > 0,
      effects: effectHandlers<WorkerEffect>({ worker: (effect) => manager.runEffect(effect) }),
      onStateChange: [
        observeKind(WORKER, (change) => manager.onWorkerChange(change)),
        observeKind(CONNECTION, (change) => manager.onConnectionChange(change)),
        observeKind(LEASE, (change) => manager.onLeaseChange(change)),
      ],
      onViewChange({ view }) {
        if (view === 'terminals') manager.schedulePush()
      },
      start: () => ephemeralWorkers.start(),
      onTimer: [handleTimer(ENROLLMENT_TIMER, (id) => manager.onProofTimedOut(id))],
      drain: async () => storeLastSeenOfOnline(context.system, registry.all()),
      stop() {
        manager.stop()
        turns.stop()
      },
      reportGauges: (meters) => frameRouter.reportMetrics(meters),
      sizes: () => ({ waitingFrames: turns.waitingCount }),
    }
  },
})

/** Chooses the worker for the next run. */
export const schedulerModule = defineHostModule({
  name: 'scheduler',
  create(context, { workers, runs, jobs, tracker, leases, trustedClock }) {
    const scheduler = new Scheduler(context, { workers, runs, jobs, tracker, leases, trustedClock })
    return {
      view: scheduler,
      onStateChange: [observeKind(RUN, (change) => scheduler.onRunChange(change))],
      onViewChange(change) {
        if (change.view === 'placement') scheduler.requestScheduling()
        else if (change.view === 'tickets') scheduler.refreshRunsOf(change.keys)
        else if (change.view === 'wait reason') {
          const run = jobs.waitingRun(change.key)
          if (run !== undefined) scheduler.add(run)
        }
      },
      beforeCommit: () => scheduler.placeRuns(),
      // Runs were restored before their workers.
      start: () => scheduler.refreshQueue(),
      onConfigChange: () => scheduler.refreshQueue(),
      onStoreReady: () => scheduler.requestScheduling(),
      reportGauges: (meters) => meters.gauge('queue_depth', scheduler.queue.size),
      sizes: () => ({ queued: scheduler.queue.size }),
    }
  },
})

/** The worker that the host runs itself. */
export const localWorkerModule = defineHostModule({
  name: 'localWorker',
  kinds: [localWorkerKind],
  create(context, { workers }) {
    const localWorker = new LocalWorkerSupervisor(context, workers.pairingTokens)
    workers.registry.isOwn = (worker) => localWorker.isOwn(worker)
    return {
      effects: effectHandlers<LocalWorkerEffect>({ local: (effect) => localWorker.runEffect(effect) }),
      start: () => localWorker.onConfigChange(),
      onConfigChange: () => localWorker.onConfigChange(),
      drain: () => localWorker.stop(),
      stop: () => localWorker.stopNow(),
    }
  },
})

// ---- turns of sleeping workers -----------------------------------------------------------------------------------

/** So long a sleeping worker that was told of a queued run keeps others asleep. */
export const WAKE_TURN_MS = 180_000

interface WakeTurn {
  readonly since: number
  readonly until: number
  /** So many runs the worker takes when it comes. */
  readonly slots: number
}

/**
 * WakeTurns counts the queued runs for which sleeping workers were told to wake, so that the others can sleep on.
 *
 * A supervisor asks for the demand while its worker is away. The first ones that ask get a turn, as many as the queued
 * runs need. A turn ends when the worker connects, when no run is queued any more, or after `WAKE_TURN_MS`: a machine
 * that does not come must not keep the others asleep. All is in memory, because a lost turn only wakes one worker more.
 */
export class WakeTurns {
  readonly #workers: WorkerRegistry
  readonly #clock: Clock
  /** By worker. A turn that is over stays, so that its worker is told of all runs but counts for none. */
  readonly #turns = new Map<string, WakeTurn>()

  constructor({ workers, clock }: { readonly workers: WorkerRegistry; readonly clock: Clock }) {
    this.#workers = workers
    this.#clock = clock
  }

  /** Returns for how many of the wanted runs other workers wake; this worker gets a turn when some are left. */
  promisedToOthers(worker: EnrolledWorker, wanted: number): number {
    const { id, online, state, context } = worker
    if (wanted === 0 || this.#hasCome(worker)) this.#turns.delete(id)
    if (online || wanted === 0 || state !== 'active' || this.#turns.has(id)) return 0
    const now = this.#clock.monotonic()
    const promised = this.#countPromised(now)
    if (promised >= wanted) return wanted
    const { once = false, maxConcurrency = 1 } = context.capabilities ?? {}
    this.#turns.set(id, { since: now, until: now + WAKE_TURN_MS, slots: once ? 1 : maxConcurrency })
    return promised
  }

  /** Whether the worker has connected since its turn began; it may be away again, and nobody asked meanwhile. */
  #hasCome({ id, online, lastFrameAt }: EnrolledWorker): boolean {
    const turn = this.#turns.get(id)
    return online || (turn !== undefined && lastFrameAt > turn.since)
  }

  #countPromised(now: number): number {
    let promised = 0
    for (const [id, { until, slots }] of this.#turns) {
      const worker = this.#workers.get(id)
      if (worker === undefined || this.#hasCome(worker)) this.#turns.delete(id)
      else if (until > now) promised += slots
    }
    return promised
  }
}
