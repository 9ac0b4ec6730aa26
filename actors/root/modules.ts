/**
 * The rooms and books of the host, made and joined to each other.
 *
 * Each is told here what it needs to know of the others, and nothing more. Some ask for what is made only after them:
 * they do so by way of functions, which nobody calls before all of it is there.
 */

import { createIds } from '../../core/ids.ts'
import { heartbeatTimeoutMs, type LeaseTimeouts } from '../../core/lease/deadline.ts'
import type {
  Clock,
  LocalWorkerLauncher,
  Log,
  Meters,
  RandomSource,
  Store,
  Tracker,
} from '../../core/ports.ts'
import type { Accounts, Bucket, CredentialChange, PullRequestApi } from '../../core/provider-ports.ts'
import type { Result } from '../../core/result.ts'
import { agentCredential } from '../../core/run/job.ts'
import { createTimestamps } from '../../core/timestamps.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { type AccountEffect, AccountManager } from '../accounts/account-manager.ts'
import type { DashboardBroadcast } from '../dashboard/dashboard-broadcast.ts'
import { RunBroadcast } from '../dashboard/run-broadcast.ts'
import { EndedLeases } from '../leases/ended-leases.ts'
import { FrameReceiver } from '../leases/frame-receiver.ts'
import type { LeaseEffect } from '../leases/lease.machine.ts'
import { LEASE } from '../leases/lease.names.ts'
import { LeaseManager } from '../leases/lease-manager.ts'
import { AnsweredRemarks } from '../runs/answered-remarks.ts'
import { ArtifactUpload } from '../runs/artifact-upload.ts'
import { FinishedRuns } from '../runs/finished-runs.ts'
import { FollowUpReader } from '../runs/follow-up-reader.ts'
import { JobPreparation } from '../runs/job-preparation.ts'
import { Memories } from '../runs/memories.ts'
import { PullStatePoller } from '../runs/pull-state-poller.ts'
import { RUN } from '../runs/run.names.ts'
import { RunEventLog } from '../runs/run-event-log.ts'
import { type RunEffect, RunManager } from '../runs/run-manager.ts'
import { UndeliveredDiscards } from '../runs/undelivered-discards.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import { MonotonicTimers } from '../runtime/monotonic-timers.ts'
import { SessionCosts } from '../terminals/session-costs.ts'
import type { TerminalSessionEffect } from '../terminals/terminal-session.machine.ts'
import { TerminalSessions } from '../terminals/terminal-sessions.ts'
import { PullRequestLinks } from '../tracker/pull-request-links.ts'
import { TicketIntake } from '../tracker/ticket-intake.ts'
import { TRACKER_CONNECTION, type TrackerConnectionEffect } from '../tracker/tracker-connection.machine.ts'
import { TrackerConnection } from '../tracker/tracker-connection.ts'
import {
  TRACKER_POLL,
  type TrackerPollEffect,
  type TrackerPollEvent,
} from '../tracker/tracker-poll.machine.ts'
import { DispatchBackoff } from '../workers/dispatch-backoff.ts'
import { Heartbeats } from '../workers/heartbeats.ts'
import { LeaseReconciliation } from '../workers/lease-reconciliation.ts'
import { LOCAL_WORKER, type LocalWorkerEffect } from '../workers/local-worker.machine.ts'
import { LocalWorkerSupervisor } from '../workers/local-worker-process.ts'
import { PairingTokens } from '../workers/pairing-tokens.ts'
import { Scheduler } from '../workers/scheduler.ts'
import { WorkerConnections, type WorkerEffect } from '../workers/worker-connections.ts'
import { WorkerFrameRouter } from '../workers/worker-frame-router.ts'
import { WorkerManager } from '../workers/worker-manager.ts'
import { WorkerRegistration } from '../workers/worker-registration.ts'
import { WorkerRegistry } from '../workers/worker-registry.ts'

export type RoomEffect =
  | WorkerEffect
  | LeaseEffect
  | TrackerPollEffect
  | TrackerConnectionEffect
  | AccountEffect
  | RunEffect
  | LocalWorkerEffect
  | TerminalSessionEffect

export interface RoomParts {
  readonly clock: Clock
  readonly random: RandomSource
  readonly log: Log
  readonly meters: Meters
  readonly store: Store
  readonly config: () => ServiceConfig
  readonly pushes: DashboardBroadcast
  readonly trackerFor: (config: ServiceConfig) => Tracker | undefined
  readonly accounts: Accounts
  readonly bucket: Bucket
  /** Refused while no code host is connected. */
  readonly pulls: (config: ServiceConfig) => Result<PullRequestApi>
  /** The port of the management listener, once it is open. */
  readonly port: () => number | undefined
  /** The configuration in force, masked. */
  readonly redacted: () => ServiceConfig
  /** Credentials into the configuration: durable and told when it resolves. */
  readonly save: SaveCredentials
  readonly localWorker: LocalWorkerLauncher | undefined
  readonly version: string
  /** New leases may be granted. */
  readonly serving: () => boolean
  /** Lines may come in: also in the moment in which the doors are being opened. */
  readonly open: () => boolean
}

/** Refused as `conflict` when `still` does not hold at the moment of writing. */
export type SaveCredentials = (
  change: CredentialChange,
  still: (config: ServiceConfig) => boolean,
) => Promise<Result<void>>

/** The laws that are cheap enough to be watched while working; each break is a bug, counted and logged. */
type WatchedLaw = 'one live lease a run' | 'durable before dispatch' | 'acknowledged never falls'

export type Rooms = ReturnType<typeof furnish>

export function furnish(parts: RoomParts, system: ActorSystem) {
  const { clock, random, log, meters, store, config, pushes } = parts
  const { keyValues, runs: records } = store.database
  const newIds = createIds(clock, random)
  const instant = createTimestamps(clock)
  const requestCommit = () => system.requestCommit()
  const requestScheduling = () => scheduler.requestScheduling()
  const anybody = () => pushes.hasListeners
  const timeouts = (): LeaseTimeouts => config().fleet
  const violated = (law: WatchedLaw) => {
    meters.count('invariant_violations_total', { law })
    log.error({ law }, 'a law was broken; please report this')
  }

  // ---- books -------------------------------------------------------------------------------------------------------

  const workers = new WorkerRegistry()
  const timers = new MonotonicTimers(
    clock,
    () => heartbeatTimeoutMs(timeouts()),
    (key, name) => rang(key, name),
  )
  const pairingTokens = new PairingTokens(clock, random)
  const runEventLog = new RunEventLog({
    events: store.events,
    requestCommit,
    publish: (event, json) => {
      if (pushes.hasListeners)
        pushes.send({ type: 'run-event', event }, `{"type":"run-event","event":${json}}`)
    },
  })
  const finishedRuns = new FinishedRuns(records, requestCommit)
  const memories = new Memories({ keyValues, newId: () => newIds.memory(), requestCommit })
  const undeliveredDiscards = new UndeliveredDiscards(keyValues, requestCommit)
  const answeredRemarks = new AnsweredRemarks({ keyValues, requestCommit })
  const endedLeases = new EndedLeases(keyValues, requestCommit)
  const runPushes = new RunBroadcast({
    clock,
    hasSubscribers: anybody,
    push: (run) => pushes.send({ type: 'run-updated', run: runManager.withWaitReason(run) }),
  })
  const sessionCosts = new SessionCosts({
    keyValues,
    usage: store.usage,
    now: () => clock.now(),
    finishedRun: (runId) => (system.peek(RUN, runId) === undefined ? finishedRuns.latest(runId) : undefined),
    changeRun: (run) => {
      finishedRuns.update(run)
      runPushes.addChanged(run)
    },
    requestCommit,
  })
  const scheduler = new Scheduler({
    workers,
    monotonicNow: () => timers.now(),
    wallNow: () => clock.now(),
    mayGrant: () => parts.serving() && store.database.state().is === 'ready',
    waitingFor: (run) => jobPreparation.waitingFor(run),
    requiredWorker: (run) => jobPreparation.sandboxHolder(run),
    readiness: (run) => jobPreparation.readiness(run),
    ticketOf: (run) => intake.currentTicket(run.ticket),
    grant: (run, worker) => leaseManager.grantLease(run, worker),
    requestCommit,
  })

  /** What nearly everybody asks for. */
  const common = {
    clock,
    random,
    instant,
    log,
    meters,
    system,
    config,
    timeouts,
    workers,
    timers,
    requestScheduling,
    requestCommit,
  }

  const frameReceiver = new FrameReceiver({
    ...common,
    keyValues,
    artifacts: store.artifacts,
    usage: store.usage,
    runEventLog,
    sendToLease: (leaseId, event) => void system.send(LEASE, leaseId, event),
    acceptsFrames: (runId) => system.isRunning(RUN, runId),
    patchRun: (runId, workerId, patch) => {
      const type =
        patch.status === 'running' || patch.status === 'finalizing'
          ? (`patched to ${patch.status}` as const)
          : 'patched'
      runManager.send(runId, { type, workerId, patch })
    },
    recordMemories: (runId, repo, learnt) => jobPreparation.recordMemories(runId, repo, learnt),
    retentionHours: () => config().sandbox.retentionHours,
    onAckDue: (workerId, leaseId) => heartbeats.acknowledgeLease(workerId, leaseId),
    onInvariantViolated: () => violated('acknowledged never falls'),
  })

  // ---- workers and their leases ------------------------------------------------------------------------------------

  const changed = () => workerManager.schedulePush()
  const connections = new WorkerConnections({ ...common, mayConnect: parts.open })
  const dispatchBackoff = new DispatchBackoff(common)
  const reconciliation = new LeaseReconciliation({ ...common, ended: endedLeases, connections })
  const heartbeats = new Heartbeats({
    ...common,
    frameReceiver,
    connections,
    reconciliation,
    onWorkersChanged: changed,
  })
  const registration = new WorkerRegistration({
    ...common,
    pairingTokens,
    connections,
    reconciliation,
    heartbeats,
    version: parts.version,
    onWorkersChanged: changed,
    onReconnected: (workerId) => workerManager.onReconnected(workerId),
  })
  const terminals = new TerminalSessions({
    ...common,
    connections,
    credentials: () => {
      // Only agentA's sessions can be gone on with.
      const agent = agentCredential('agentA', config().agent)
      return agent === undefined ? {} : { agent }
    },
  })
  const frameRouter = new WorkerFrameRouter({
    ...common,
    frameReceiver,
    connections,
    registration,
    heartbeats,
    reconciliation,
    dispatchBackoff,
    usage: store.usage,
    terminals,
    sessionCosts,
  })
  const workerManager: WorkerManager = new WorkerManager({
    ...common,
    connections,
    registration,
    dispatchBackoff,
    frameReceiver,
    undeliveredDiscards,
    terminals,
    hasViewers: anybody,
    pushWorkers: () => pushes.send({ type: 'workers', workers: workers.views() }),
  })
  const leaseManager: LeaseManager = new LeaseManager({
    ...common,
    newId: () => newIds.lease(),
    connections,
    dispatchBackoff,
    frameReceiver,
    endedLeases,
    prepareJob: (lease) => jobPreparation.prepareJob(lease),
    onInvariantViolated: violated,
  })

  const localWorker = new LocalWorkerSupervisor({
    ...common,
    pairingTokens,
    launcher: parts.localWorker,
    sendEvent: (event) => void system.send(LOCAL_WORKER, LOCAL_WORKER, event),
  })

  // ---- tickets and runs --------------------------------------------------------------------------------------------

  const trackerConnection: TrackerConnection = new TrackerConnection({
    ...common,
    trackerFor: parts.trackerFor,
    refresh: (config, token) => parts.accounts.refreshTrackerToken(config, token),
    save: parts.save,
    sendEvent: (event) => void system.send(TRACKER_CONNECTION, TRACKER_CONNECTION, event),
    onTrackerReplaced: (tracker) => intake.onTrackerReplaced(tracker),
  })
  const intake: TicketIntake = new TicketIntake({
    ...common,
    keyValues,
    trackerConnection,
    sendEvent: (event: TrackerPollEvent) => void system.send(TRACKER_POLL, TRACKER_POLL, event),
    activeRunOf: (ticketId) => runManager.activeRunOf(ticketId),
    activeTicketIds: () => runManager.activeTickets(),
    lastFinishedAt: (ticket) => runManager.lastFinishedAt(ticket),
    queueRun: (ticket) => void runManager.createRun(ticket),
    onTicketLeft: (ticket) => runManager.onTicketLeft(ticket),
    onTicketsChanged: (eligible) => {
      if (eligible) pushes.send({ type: 'tickets', tickets: [...intake.eligible()] })
      scheduler.refreshQueue()
    },
  })
  const pullRequestLinks = new PullRequestLinks({
    ...common,
    keyValues,
    ask: (errand) => trackerConnection.ask(errand),
  })
  const artifactUpload = new ArtifactUpload({
    ...common,
    keyValues,
    runs: records,
    artifacts: store.artifacts,
    bucket: parts.bucket,
    pullRequestApi: () => parts.pulls(config()),
    appendToRunLog: (runId, text) => runEventLog.appendText(runId, instant(), text),
  })
  const followUpReader = new FollowUpReader({
    ...common,
    pullRequestApi: () => parts.pulls(config()),
    answered: (runId, url) => answeredRemarks.answered(runId, url),
    onWaitReasonChanged: (runId) => jobPreparation.onWaitReasonChanged(runId),
    onPullState: (runId, url, state) => runManager.onPullState(runId, url, state),
    onPullGone: (runId, reason) => void runManager.send(runId, { type: 'pull gone', at: instant(), reason }),
  })
  const jobPreparation: JobPreparation = new JobPreparation({
    ...common,
    runEventLog,
    memories,
    runPushes,
    scheduler,
    followUpReader,
    answeredRemarks,
    blockedBy: (ticket) => intake.waitingFor(ticket),
    pullRequestApi: () => parts.pulls(config()),
  })
  const runManager: RunManager = new RunManager({
    ...common,
    newId: () => newIds.run(),
    runs: records,
    runEventLog,
    finishedRuns,
    runPushes,
    scheduler,
    intake,
    workers,
    trackerConnection,
    pullRequestLinks,
    artifactUpload,
    followUpReader,
    answeredRemarks,
    pollPull: (run) => pullStatePoller.pollRun(run),
  })
  const connect = new AccountManager({
    ...common,
    redacted: parts.redacted,
    accounts: parts.accounts,
    bucket: parts.bucket,
    port: parts.port,
    save: async (change, still = () => true) => {
      const saved = await parts.save(change, still)
      // A tracker may be asked with the code host's token, too.
      if (saved.ok && (change.tracker ?? change.codehost) !== undefined)
        trackerConnection.onCredentialConfirmed()
      return saved
    },
  })
  const pullStatePoller = new PullStatePoller({
    ...common,
    runs: records,
    pullRequestApi: () => parts.pulls(config()),
    latestRun: (id) => runManager.latest(id),
    onPullState: (runId, url, state) => runManager.onPullState(runId, url, state),
  })

  /** An alarm's key begins with the word of whoever set it. */
  const rang = (key: string, name: string) => {
    if (key.startsWith('lease ')) leaseManager.onTimer(key, name)
    else if (key.startsWith('attach ')) terminals.onTimer(key)
    else if (key.startsWith('enrollment ')) workerManager.onTimer(key)
    else if (key.startsWith('worker ')) dispatchBackoff.onTimer(key, name)
    else connections.onTimer(key, name)
  }

  return {
    instant,
    newFollowUpId: () => newIds.followUp(),
    workers,
    timers,
    pairingTokens,
    journal: runEventLog,
    resting: finishedRuns,
    memories,
    undeliveredDiscards,
    told: answeredRemarks,
    ended: endedLeases,
    runPushes,
    scheduler,
    frameReceiver,
    connections,
    dispatchBackoff,
    terminals,
    sessionCosts,
    frameRouter,
    workerManager,
    localWorker,
    leases: leaseManager,
    trackerConnection,
    intake,
    pullRequestLinks,
    evidence: artifactUpload,
    followUps: followUpReader,
    callings: jobPreparation,
    pullWatch: pullStatePoller,
    connect,
    runs: runManager,
  }
}
