import type { Log } from '../../core/ports/log.ts'
import { EXPIRED_SANDBOXES_MAX } from '../../protocol/limits.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { effectHandlers } from '../runtime/module.ts'
import { handleTimer, timerKind } from '../runtime/timer-kind.ts'
import { type DaemonEffect, type DaemonEvent, daemonKind } from './daemon.machine.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import { type DaemonContext, defineDaemonModule } from './daemon-context.ts'
import type { Executions } from './executions.ts'
import type { HostConnectionEvent } from './host-connection.machine.ts'
import type { HostConnection } from './host-connection.ts'
import type { ResumedSandboxes } from './resumed-sandboxes.ts'

/** The timer key of the wait for work. */
const IDLE_TIMER = timerKind<'idle'>('idle')

/** The daemon module counts what still runs, so that a daemon which is to end knows when it may. */
export const daemonModule = defineDaemonModule({
  name: 'daemon',
  kinds: [daemonKind],
  create(context, { executions: { executions, runner }, resumedSandboxes, hostConnection }) {
    const { system, timers, drainMsMax, idleMsMax, isServing, storeState } = context
    const sendDaemonEvent = (event: DaemonEvent) => void system.send(DAEMON, DAEMON, event)
    const sendConnectionEvent = (event: HostConnectionEvent) =>
      void system.send(HOST_CONNECTION, HOST_CONNECTION, event)
    const publishCount = () => {
      if (system.peek(DAEMON, DAEMON) === undefined || isServing()) return
      const counted = executions.count()
      const resumedCount = resumedSandboxes.count
      // After a disk failure actors receive no events, so count running processes instead.
      const running = storeState().is === 'broken' ? runner.occupiedRuns.size : counted.running
      sendDaemonEvent({
        type: 'counted',
        running: running + resumedCount,
        unacknowledged: counted.unacknowledged,
      })
    }
    const watchIdleness = () => {
      timers.cancelAll(IDLE_TIMER.key())
      const { running, unacknowledged } = executions.count()
      if (idleMsMax !== undefined && running + unacknowledged + resumedSandboxes.count === 0)
        timers.in(IDLE_TIMER.key(), 'idle', idleMsMax)
    }
    const runEffect = createDaemonEffects({
      ...context,
      drainMsMax,
      hostConnection,
      executions,
      resumedSandboxes,
      connect: () => sendConnectionEvent({ type: 'connect requested' }),
      disconnect: () => sendConnectionEvent({ type: 'disconnect requested' }),
      waitForCommits: () => system.settled(),
      sendDaemonEvent,
      publishCount,
    })
    return {
      effects: effectHandlers<DaemonEffect>({ daemon: runEffect }),
      onTimer: [
        handleTimer(DAEMON_TIMER, () => sendDaemonEvent({ type: 'timed out' })),
        handleTimer(IDLE_TIMER, () => sendDaemonEvent({ type: 'idle for long' })),
      ],
      onViewChange({ view }) {
        if (view !== 'executions' && view !== 'resumed sandboxes') return
        publishCount()
        watchIdleness()
      },
      start: watchIdleness,
    }
  },
})

/** The diskReclaim module lets the executor delete what no execution and no resumed sandbox needs any more. */
export const diskReclaimModule = defineDaemonModule({
  name: 'diskReclaim',
  create(context, { executions: { executions }, resumedSandboxes }) {
    const isProtected = (runId: string) => executions.claimsRun(runId) || resumedSandboxes.has(runId)
    const diskReclaim = new DiskReclaim(context, isProtected)
    return {
      onTimer: [handleTimer(DISK_RECLAIM_TIMER, () => void diskReclaim.run())],
      onViewChange({ view }) {
        if (view === 'host clock') void diskReclaim.run()
      },
      start: () => void diskReclaim.run(),
      stop: () => diskReclaim.stop(),
    }
  },
})

// ---- the way to an end -------------------------------------------------------------------------------------------

interface DaemonPorts extends Pick<DaemonContext, 'timers' | 'finish'> {
  readonly log: Log
  readonly hostConnection: HostConnection
  readonly executions: Executions
  readonly resumedSandboxes: ResumedSandboxes
  readonly drainMsMax: number | undefined
  readonly connect: () => void
  readonly disconnect: () => void
  /** Resolves when all pending transitions and frames are on disk. */
  readonly waitForCommits: () => Promise<void>
  readonly sendDaemonEvent: (event: DaemonEvent) => void
  readonly publishCount: () => void
}

/** How long a daemon without running executions waits for the host to acknowledge their completions. */
const ACKNOWLEDGE_MS_MAX = 30_000
/** Its disk may end with it, so a worker that takes one run waits longer, for example for a host that is restarted. */
const ONLY_ACKNOWLEDGE_MS_MAX = 60 * 60_000
/** How long interrupted agents may take to report their costs. */
const ABANDON_MS_MAX = 30_000
/** From the kill until the daemon stops waiting for processes. */
const KILL_MS_MAX = 10_000
const FLUSH_MS_MAX = 5_000

const STOPPED = 'the worker is being stopped'

/** The timer key of the daemon's time limits. */
const DAEMON_TIMER = timerKind<'time'>('daemon')

/**
 * Carries out the effects of the daemon machine: connect, count executions, stop them, end.
 *
 * Every step towards the end has a time limit, so a process that cannot be killed or a full disk cannot keep the daemon
 * from ending. The worker reports what is on disk by then after its next start.
 */
function createDaemonEffects(ports: DaemonPorts): (effect: DaemonEffect) => void {
  const { resumedSandboxes, executions, hostConnection, timers } = ports
  const setTimeLimit = (ms: number) => timers.in(DAEMON_TIMER.key(), 'time', ms)
  return (effect) => {
    switch (effect.type) {
      case 'daemon.connect':
        ports.connect()
        return
      case 'daemon.start drain timer':
        if (ports.drainMsMax !== undefined) setTimeLimit(ports.drainMsMax)
        return
      case 'daemon.announce end':
        hostConnection.onCapabilitiesChanged()
        return
      case 'daemon.wait for the only acknowledgement':
        setTimeLimit(ONLY_ACKNOWLEDGE_MS_MAX)
        return
      case 'daemon.wait for acknowledgements':
        setTimeLimit(ACKNOWLEDGE_MS_MAX)
        return
      case 'daemon.hand back':
        if (effect.what === 'unbegun') return executions.handBackUnbegun(effect.reason)
        setTimeLimit(KILL_MS_MAX)
        executions.handBackAll(effect.reason)
        resumedSandboxes.releaseAll(STOPPED)
        return
      case 'daemon.abandon':
        setTimeLimit(ABANDON_MS_MAX)
        executions.abandonAll(effect.how, effect.reason, effect.how === 'interrupt')
        resumedSandboxes.releaseAll(effect.reason)
        return
      case 'daemon.kill':
        setTimeLimit(KILL_MS_MAX)
        executions.killAll(effect.reason)
        resumedSandboxes.releaseAll(STOPPED)
        return
      case 'daemon.count':
        ports.publishCount()
        return
      case 'daemon.flush':
        setTimeLimit(FLUSH_MS_MAX)
        void flush(ports)
        return
      case 'daemon.finish':
        ports.finish(effect.end)
    }
  }
}

/** The last heartbeat names the leases that are still claimed; the host queues all other runs again at once. */
async function flush({
  executions,
  hostConnection,
  waitForCommits,
  disconnect,
  sendDaemonEvent,
}: DaemonPorts): Promise<void> {
  await waitForCommits()
  executions.releaseEndedClaims()
  await hostConnection.sendLastHeartbeat()
  disconnect()
  sendDaemonEvent({ type: 'flushed' })
}

// ---- disk space --------------------------------------------------------------------------------------------------

const DISK_RECLAIM_TIMER = timerKind<'again'>('reclaim')

const RECLAIM_MS = 5 * 60_000

/**
 * DiskReclaim asks the executor to free disk space, at the start and then 5 minutes after each attempt. Each time it names
 * to the host the sandboxes that need the host's word.
 */
class DiskReclaim {
  readonly #context: DaemonContext
  readonly #isProtected: (runId: string) => boolean
  #isStopped = false

  /** @param isProtected whether the disk of a run must stay */
  constructor(context: DaemonContext, isProtected: (runId: string) => boolean) {
    this.#context = context
    this.#isProtected = isProtected
  }

  async run(): Promise<void> {
    const { executor, hostSender, log, timers } = this.#context
    try {
      const expired = [...(await executor.reclaim(this.#isProtected))]
      while (expired.length > 0)
        hostSender.send({ type: 'expired-sandboxes', sandboxes: expired.splice(0, EXPIRED_SANDBOXES_MAX) })
    } catch (error) {
      log.error(
        { reason: messageOf(error) },
        'could not reclaim disk space; the next attempt follows in 5 minutes',
      )
    }
    if (!this.#isStopped) timers.in(DISK_RECLAIM_TIMER.key(), 'again', RECLAIM_MS)
  }

  stop(): void {
    this.#isStopped = true
  }
}
