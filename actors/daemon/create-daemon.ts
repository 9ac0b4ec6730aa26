/**
 * Builds a whole worker daemon from its dependencies: clock, disk, dialer, executor.
 *
 * Nothing in here touches the operating system, so a test can build many daemons and their host in one process.
 */
import { isNativeError } from 'node:util/types'
import type { StoreState } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { ActorSystem } from '../runtime/actor-system.ts'
import type { Effect } from '../runtime/transition-output.ts'
import { daemonKinds } from './actor-kinds.ts'
import { createDaemonEffects, DAEMON_TIMER } from './daemon.effects.ts'
import type { DaemonEffect, DaemonEvent } from './daemon.machine.ts'
import { DAEMON, EXECUTION, HOST_CONNECTION } from './daemon.names.ts'
import type { Daemon, DaemonDependencies, DaemonEnd, DaemonStatus } from './daemon-dependencies.ts'
import { DispatchAdmission } from './dispatch-admission.ts'
import type { ExecutionEffect } from './execution.machine.ts'
import { ExecutionLookup } from './execution-lookup.ts'
import { ExecutionRunner } from './execution-runner.ts'
import { Executions, LEASE_TIMER } from './executions.ts'
import { FRAME_OUTBOX_TIMER, FrameOutbox } from './frame-outbox.ts'
import type {
  HostConnectionContext,
  HostConnectionEffect,
  HostConnectionEvent,
} from './host-connection.machine.ts'
import { HOST_CONNECTION_TIMER, HostConnection } from './host-connection.ts'
import { HostFrameRouter } from './host-frame-router.ts'
import { HostSender } from './host-sender.ts'
import { Reports } from './reports.ts'
import type { ResumedSandboxEffect } from './resumed-sandbox.machine.ts'
import { RESUMED_SANDBOX_TIMER, ResumedSandboxes } from './resumed-sandboxes.ts'
import { SleepAwareTimers } from './sleep-aware-timers.ts'

const RECLAIM_TIMER = 'reclaim'
const RECLAIM_MS = 5 * 60_000

const STATUS_STATES: Readonly<Record<string, DaemonStatus['state']>> = {
  serving: 'serving',
  draining: 'draining',
  reporting: 'draining',
  stopped: 'stopped',
}

export function createDaemon(dependencies: DaemonDependencies): Daemon {
  const { clock, random, log, meters, database, executor } = dependencies
  let started = false
  let ended = false

  const sendDaemonEvent = (event: DaemonEvent) => void system.send(DAEMON, DAEMON, event)
  const sendConnectionEvent = (event: HostConnectionEvent) =>
    void system.send(HOST_CONNECTION, HOST_CONNECTION, event)
  const stateOf = (kind: string) => system.peek(kind, kind)?.value

  const publishCount = () => {
    if (stateOf(DAEMON) === undefined || stateOf(DAEMON) === 'serving') return
    const counted = executions.count()
    const resumedCount = resumedSandboxes.count
    // After a disk failure actors receive no events, so count running processes instead.
    const running = database.state().is === 'broken' ? runner.occupiedRuns.size : counted.running
    sendDaemonEvent({
      type: 'counted',
      running: running + resumedCount,
      unacknowledged: counted.unacknowledged,
    })
  }

  const finish = (end: DaemonEnd) => {
    if (ended) return
    ended = true
    stopListening()
    timers.stop()
    system.stop()
    dependencies.onEnd(end)
  }

  const onFatal = (reason: string) => {
    if (ended) return
    log.error({ reason }, 'the worker daemon ends because of a fatal error')
    if (system.peek(DAEMON, DAEMON) === undefined) finish({ is: 'broken', detail: reason })
    else sendDaemonEvent({ type: 'fatal error', reason })
  }

  const reclaimDisk = async () => {
    try {
      await executor.reclaim((runId) => executions.claimsRun(runId) || resumedSandboxes.has(runId))
    } catch (error) {
      log.error(
        { reason: isNativeError(error) ? error.message : String(error) },
        'could not reclaim disk space; the next attempt follows in 5 minutes',
      )
    }
    if (!ended) timers.in(RECLAIM_TIMER, 'again', RECLAIM_MS)
  }

  const timers = new SleepAwareTimers(clock, (key, name) => {
    if (key === HOST_CONNECTION_TIMER) hostConnection.onTimer(name)
    else if (key === FRAME_OUTBOX_TIMER) outbox.onTimer(name)
    else if (key === DAEMON_TIMER) sendDaemonEvent({ type: 'timed out' })
    else if (key === RECLAIM_TIMER) void reclaimDisk()
    else if (key.startsWith(RESUMED_SANDBOX_TIMER)) resumedSandboxes.onTimer(key, name)
    else if (key.startsWith(LEASE_TIMER)) executions.onTimer(key, name)
  })
  const hostSender = new HostSender({ timers, identity: dependencies.identity })
  const outbox = new FrameOutbox({
    keyValues: database.keyValues,
    storeState: () => database.state(),
    log,
    timers,
    hostSender,
    requestCommit: () => system.requestCommit(),
  })
  const hostConnection: HostConnection = new HostConnection({
    timers,
    random,
    log,
    dialer: dependencies.dialer,
    identity: dependencies.identity,
    hostSender,
    name: dependencies.name,
    capabilities: {
      ...dependencies.capabilities,
      maxConcurrency: dependencies.concurrency,
      version: dependencies.version,
    },
    sendConnectionEvent,
    claims: () => executions.claims(),
    viewCount: () => resumedSandboxes.viewCount,
    onUp: () => {
      outbox.onConnectionChange()
      resumedSandboxes.onConnectionUp()
    },
    onDown: () => {
      outbox.onConnectionChange()
      resumedSandboxes.onConnectionDown()
    },
    onFrame: (frame) => frameRouter.route(frame),
    onUnknownFrame: (text, error) => frameRouter.handleUnknown(text, error),
  })

  const effectRunners: Readonly<Record<string, (effect: Effect) => void>> = {
    // The word in front of the dot names the owner of an effect, which justifies these casts.
    connection: (effect) => hostConnection.runEffect(effect as HostConnectionEffect),
    sandbox: (effect) => resumedSandboxes.runEffect(effect as ResumedSandboxEffect),
    execution: (effect) => executions.runEffect(effect as ExecutionEffect),
    daemon: (effect) => runDaemonEffect(effect as DaemonEffect),
  }
  const system: ActorSystem = new ActorSystem({
    clock,
    database,
    log,
    meters,
    kinds: daemonKinds,
    runEffect: (effect) => effectRunners[effect.type.slice(0, effect.type.indexOf('.'))]?.(effect),
    participants: [outbox],
    onStateChange: (change) => {
      if (change.kind === EXECUTION) executions.onStateChange(change)
    },
    onFatal,
  })
  const lookup = new ExecutionLookup(system)
  const reports = new Reports({ log, lookup, outbox })
  const runner = new ExecutionRunner({
    clock,
    log,
    executor,
    lookup,
    reports,
    outbox,
    onChange: publishCount,
  })
  const executions: Executions = new Executions({
    system,
    timers,
    hostSender,
    lookup,
    outbox,
    reports,
    runner,
    onChange: publishCount,
  })
  const resumedSandboxes: ResumedSandboxes = new ResumedSandboxes({
    log,
    timers,
    hostSender,
    system,
    executor,
    makeScreen: dependencies.makeScreen,
    objection: (runId) => {
      if (stateOf(DAEMON) !== 'serving') return 'the worker is being stopped; try again once it is back'
      const isBusy = executions.claimsRun(runId) || runner.isOccupied(runId)
      return isBusy
        ? 'the worker still executes something of this run; try again when that has ended'
        : undefined
    },
    onChange: publishCount,
  })
  const dispatchAdmission = new DispatchAdmission({
    clock,
    log,
    hostSender,
    executions,
    resumedSandboxes,
    executor,
    concurrency: dependencies.concurrency,
    isStopping: () => stateOf(DAEMON) !== 'serving',
    storeState: () => database.state(),
  })
  const frameRouter = new HostFrameRouter({
    log,
    timers,
    hostSender,
    outbox,
    executions,
    dispatchAdmission,
    runner,
    resumedSandboxes,
  })
  const runDaemonEffect = createDaemonEffects({
    log,
    timers,
    hostConnection,
    executions,
    resumedSandboxes,
    drainMsMax: dependencies.drainMsMax,
    connect: () => sendConnectionEvent({ type: 'connect requested' }),
    disconnect: () => sendConnectionEvent({ type: 'disconnect requested' }),
    waitForCommits: () => system.settled(),
    sendDaemonEvent,
    publishCount,
    finish,
  })

  const onStoreState = (state: StoreState) => {
    if (state.is === 'broken') system.stopAfterStoreFailure(state.reason)
    else if (state.is === 'degraded')
      log.warn({ reason: state.reason }, 'the disk is full; reports wait until there is space again')
  }
  const stopListening = database.onState(onStoreState)

  const start = (): Result<void> => {
    const restored = system.restore()
    if (!restored.ok) return restored
    for (const problem of restored.value.damaged)
      log.error({ problem }, 'could not read a stored record; it stays on disk untouched')
    outbox.eraseUnownedFrames()
    system.spawn(HOST_CONNECTION, HOST_CONNECTION, {})
    system.spawn(DAEMON, DAEMON, {})
    void reclaimDisk()
    // The database may have failed before this listener was attached.
    onStoreState(database.state())
    return yes(undefined)
  }

  return {
    start() {
      if (started) return no('conflict', 'the daemon was already started')
      started = true
      return start()
    },
    drain: () => sendDaemonEvent({ type: 'drain requested' }),
    handBack: () => sendDaemonEvent({ type: 'hand back requested' }),
    stopNow: () => sendDaemonEvent({ type: 'stop requested' }),
    status() {
      const connection = system.peek(HOST_CONNECTION, HOST_CONNECTION)?.context as
        | HostConnectionContext
        | undefined
      const { workerId, isUp } = hostSender
      const state = stateOf(DAEMON)
      return {
        state: ended
          ? 'stopped'
          : state === undefined
            ? 'starting'
            : (STATUS_STATES[String(state)] ?? 'stopping'),
        online: isUp,
        ...(workerId === undefined ? {} : { workerId }),
        ...(connection?.trouble == null || isUp ? {} : { trouble: connection.trouble }),
        executions: executions.status(),
      }
    },
  }
}
