/**
 * The modules about workers: who is enrolled and connected, what arrives on their connections, who gets the next run,
 * and the worker that the host runs itself.
 */
import { defineHostModule } from '../host-context.ts'
import { LEASE } from '../leases/lease.names.ts'
import { RUN } from '../runs/run.names.ts'
import { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import { effectHandlers } from '../runtime/module.ts'
import { connectionKind } from './connection.machine.ts'
import { DispatchBackoff } from './dispatch-backoff.ts'
import { EphemeralWorkers } from './ephemeral-workers.ts'
import { ExpiredSandboxes } from './expired-sandboxes.ts'
import { FrameTurns } from './frame-turns.ts'
import { Heartbeats } from './heartbeats.ts'
import { JoinKeys } from './join-keys.ts'
import { storeLastSeenOfOnline } from './last-seen.ts'
import { LeaseReconciliation } from './lease-reconciliation.ts'
import { LOCAL_WORKER, type LocalWorkerEffect, localWorkerKind } from './local-worker.machine.ts'
import { LocalWorkerSupervisor } from './local-worker-process.ts'
import { PairingTokens } from './pairing-tokens.ts'
import { Scheduler } from './scheduler.ts'
import { Setbacks } from './setbacks.ts'
import { UnregisteredSeats } from './unregistered-seats.ts'
import { WakeTurns } from './wake-turns.ts'
import { workerKind } from './worker.machine.ts'
import { CONNECTION, WORKER } from './worker.names.ts'
import { WorkerConnections } from './worker-connections.ts'
import type { WorkerEffect } from './worker-effects.ts'
import { WorkerFrameRouter } from './worker-frame-router.ts'
import { WorkerManager } from './worker-manager.ts'
import { WorkerProofs } from './worker-proofs.ts'
import { WorkerRegistration } from './worker-registration.ts'
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
    const { clock, random, store, requestCommit, isOpen } = context
    const registry = new WorkerRegistry()
    const seats = new UnregisteredSeats(context.timers)
    const connections = new WorkerConnections({
      ...context,
      workers: registry,
      seats,
      mayConnect: isOpen,
      maySend: () => store.database.state().is !== 'broken',
    })
    const dispatchBackoff = new DispatchBackoff({ ...context, workers: registry, troubles })
    const setbacks = new Setbacks({ ...context, workers: registry })
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
        proofs: new WorkerProofs({ ...context, workers: registry, pairingTokens, joinKeys }),
        undeliveredDiscards,
        wakeTurns: new WakeTurns({ workers: registry, clock }),
      },
      participants: [undeliveredDiscards, joinKeys],
      onTimer: {
        connection: (key, name) => connections.onTimer(key, name),
        worker: (key, name) => dispatchBackoff.onTimer(key, name),
        setback: (key, name) => setbacks.onTimer(key, name),
      },
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
    const { broadcast, store, version } = context
    const { registry, connections, dispatchBackoff, setbacks, pairingTokens, joinKeys, undeliveredDiscards } =
      workers
    const { frameReceiver, endedLeases, acknowledgements, settlements } = leases
    const perWorker = { dispatchBackoff, setbacks, undeliveredDiscards }
    const shared = { ...context, workers: registry, connections, trustedClock, ...perWorker }
    const onWorkersChanged = () => manager.schedulePush()
    terminals.sessions.onViewsChanged = onWorkersChanged
    const reconciliation = new LeaseReconciliation({ ...shared, ended: endedLeases })
    const heartbeats = new Heartbeats({ ...shared, acknowledgements, reconciliation, onWorkersChanged })
    const registration = new WorkerRegistration({
      ...shared,
      pairingTokens,
      joinKeys,
      reconciliation,
      acknowledgements,
      version,
      installation: store.installation,
      onWorkersChanged,
      onReconnected: (workerId) => manager.onReconnected(workerId),
    })
    const ephemeralWorkers = new EphemeralWorkers(shared)
    const manager: WorkerManager = new WorkerManager({
      ...shared,
      ephemeralWorkers,
      registration,
      frameReceiver,
      terminals: terminals.sessions,
      installation: store.installation,
      hasViewers: () => broadcast.hasListeners,
      pushWorkers: () => broadcast.send({ type: 'workers', workers: registry.views() }),
    })
    const turns = new FrameTurns(context.clock)
    const frameRouter = new WorkerFrameRouter({
      ...shared,
      frameReceiver,
      registration,
      heartbeats,
      reconciliation,
      usage: store.usage,
      terminals: terminals.sessions,
      sessionCosts: terminals.sessionCosts,
      settlements,
      turns,
      expiredSandboxes: new ExpiredSandboxes({ ...shared, ...runRecords, terminals: terminals.sessions }),
    })
    return {
      view: frameRouter,
      hasInput: () => turns.waitingCount > 0,
      effects: effectHandlers<WorkerEffect>({ worker: (effect) => manager.runEffect(effect) }),
      onStateChange: {
        [WORKER]: (change) => manager.onWorkerChange(change),
        [CONNECTION]: (change) => manager.onConnectionChange(change),
        [LEASE]: (change) => manager.onLeaseChange(change),
      },
      start: () => ephemeralWorkers.start(),
      onTimer: { enrollment: (key) => manager.onTimer(key) },
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
  create(
    { store, timers, clock, config, requestCommit, isServing },
    { workers, jobs, tracker, leases, trustedClock },
  ) {
    const scheduler = new Scheduler({
      workers: workers.registry,
      monotonicNow: () => timers.now(),
      wallNow: () => clock.now(),
      trustedNow: () => trustedClock.now() ?? Number.NEGATIVE_INFINITY,
      mayGrant: () => isServing() && store.database.state().is === 'ready',
      isPaused: () => config().policy.paused,
      isDiskFull: () => store.database.state().is === 'degraded',
      repos: () => config().repos,
      preparation: jobs.preparation,
      ticketOf: (run) => tracker.intake.currentTicket(run.ticket),
      leases: leases.manager,
      requestCommit,
      later: (run) => clock.endOfTick(run),
    })
    return {
      view: scheduler,
      onStateChange: { [RUN]: (change) => scheduler.onRunChange(change) },
      onViewChange({ view, key, keys = [] }) {
        if (view === 'placement') scheduler.requestScheduling()
        else if (view === 'tickets') scheduler.refreshRunsOf(keys)
        else if (view === 'wait reason' && key !== undefined) {
          const run = jobs.waitingRun(key)
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
    const localWorker = new LocalWorkerSupervisor({
      ...context,
      pairingTokens: workers.pairingTokens,
      launcher: context.localWorkerLauncher,
      sendEvent: (event) => void context.system.send(LOCAL_WORKER, LOCAL_WORKER, event),
    })
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
