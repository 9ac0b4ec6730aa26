/** The modules about the process as a whole: its way to an end, and the disk space of runs that are over. */
import { effectHandlers } from '../runtime/module.ts'
import { createDaemonEffects, DAEMON_TIMER } from './daemon.effects.ts'
import { type DaemonEffect, type DaemonEvent, daemonKind } from './daemon.machine.ts'
import { DAEMON, HOST_CONNECTION } from './daemon.names.ts'
import { defineDaemonModule } from './daemon-context.ts'
import { DISK_RECLAIM_TIMER, DiskReclaim } from './disk-reclaim.ts'
import type { HostConnectionEvent } from './host-connection.machine.ts'

/** The timer key of the wait for work. */
const IDLE_TIMER = 'idle'

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
      timers.cancelAll(IDLE_TIMER)
      const { running, unacknowledged } = executions.count()
      if (idleMsMax !== undefined && running + unacknowledged + resumedSandboxes.count === 0)
        timers.in(IDLE_TIMER, 'idle', idleMsMax)
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
      onTimer: {
        [DAEMON_TIMER]: () => sendDaemonEvent({ type: 'timed out' }),
        [IDLE_TIMER]: () => sendDaemonEvent({ type: 'idle for long' }),
      },
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
    const diskReclaim = new DiskReclaim({
      ...context,
      isProtected: (runId) => executions.claimsRun(runId) || resumedSandboxes.has(runId),
    })
    return {
      onTimer: { [DISK_RECLAIM_TIMER]: () => void diskReclaim.run() },
      onViewChange({ view }) {
        if (view === 'host clock') void diskReclaim.run()
      },
      start: () => void diskReclaim.run(),
      stop: () => diskReclaim.stop(),
    }
  },
})
