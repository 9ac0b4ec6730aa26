/** The dashboard module sends `run-updated` for every run that changed, and for queued runs that wait for another reason. */
import { readOr } from '../../core/damage.ts'
import type { RunRecords } from '../../core/ports.ts'
import { QUEUE_REASON_PUSHES_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { defineHostModule } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import { RunBroadcast } from './run-broadcast.ts'

/** Stands for no version: dashboards may have read different reasons. */
const UNKNOWN_VERSION = -1

export const dashboardModule = defineHostModule({
  name: 'dashboard',
  create({ clock, broadcast, store, system }, { scheduler, jobs, runs }) {
    const runBroadcast = new RunBroadcast({
      clock,
      hasSubscribers: () => broadcast.hasListeners,
      push: (run) => broadcast.send({ type: 'run-updated', run: scheduler.shownRun(run) }),
    })
    let queueReason: string | undefined
    let sentReasonsVersion = 0

    const currentReason = () => (scheduler.queue.size === 0 ? undefined : scheduler.sharedReason()?.reason)

    /** The first runs in the queue are sent with their reason; the others show it when they are asked for. */
    function sendQueueReason(): void {
      const reason = currentReason()
      const { reasonsVersion } = scheduler
      if (reason === queueReason && reasonsVersion === sentReasonsVersion) return
      queueReason = reason
      sentReasonsVersion = reasonsVersion
      let sent = 0
      for (const run of scheduler.queue.runs()) {
        if (sent++ >= QUEUE_REASON_PUSHES_MAX) return
        runBroadcast.addChanged(run)
      }
    }

    /** No commit need end on a full disk, so the runs go out as they are on disk. */
    function sendWaitReasons(): void {
      if (!broadcast.hasListeners) return
      for (const runId of [...system.keys(RUN)].slice(0, QUEUE_REASON_PUSHES_MAX)) {
        const run = readDurable(store.database.runs, runId)
        if (run !== undefined) runBroadcast.publish(run)
      }
    }
    const stopWatchingDisk = store.database.onState(sendWaitReasons)

    broadcast.onUnwatched(() => runBroadcast.dropLater())
    broadcast.onRead(() => {
      if (currentReason() !== queueReason) sentReasonsVersion = UNKNOWN_VERSION
    })

    return {
      participants: [runBroadcast],
      onStateChange: {
        [RUN]: ({ before, after }) => {
          const { run } = after.context as RunContext
          if (run !== (before?.context as RunContext | undefined)?.run) runBroadcast.addChanged(run)
        },
      },
      onViewChange({ view, key }) {
        if (key === undefined) return
        const run =
          view === 'finished run'
            ? runs.latest(key)
            : view === 'wait reason'
              ? jobs.waitingRun(key)
              : undefined
        if (run !== undefined) runBroadcast.addChanged(run)
      },
      beforeCommit() {
        if (broadcast.hasListeners) sendQueueReason()
      },
      stop() {
        stopWatchingDisk()
        runBroadcast.dropLater()
      },
      sizes: () => ({ recentPushes: runBroadcast.size }),
    }
  },
})

const readDurable = (runs: RunRecords, runId: string): Run | undefined =>
  readOr(
    () => runs.get(runId),
    () => undefined,
  )
