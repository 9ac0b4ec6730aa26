/** The dashboard module sends `run-updated` for every run that changed, and for queued runs that wait for another reason. */

import { readOr } from '../../core/damage.ts'
import type { Cancel, Clock } from '../../core/ports/clock.ts'
import type { RunRecords } from '../../core/ports/store.ts'
import type { Run } from '../../protocol/run.ts'
import { defineHostModule } from '../host-context.ts'
import { RUN } from '../runs/run.machine.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'
import { observeKind } from '../runtime/module.ts'

/** Shortest interval between two pushes of one run; the last state is always pushed. */
export const RUN_PUSH_MS = 100
/**
 * Queued runs that are pushed again when their queue reason changes; clients read the reason of other runs on
 * request.
 */
const QUEUE_REASON_PUSHES_MAX = 200

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
      onStateChange: [
        observeKind(RUN, ({ before, after }) => {
          const { run } = after.context
          if (run !== before?.context.run) runBroadcast.addChanged(run)
        }),
      ],
      onViewChange(change) {
        const run =
          change.view === 'finished run'
            ? runs.latest(change.key)
            : change.view === 'wait reason'
              ? jobs.waitingRun(change.key)
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

// ---- pushes of runs ----------------------------------------------------------------------------------------------

interface RunBroadcastPorts {
  readonly clock: Clock
  readonly hasSubscribers: () => boolean
  /** Publishes the run as people see it, with its wait reason. */
  readonly push: (run: Run) => void
}

interface RecentPush {
  /** The state to publish next, when the run has changed since the last push. */
  latest: Run | undefined
  readonly cancel: Cancel
}

/**
 * RunBroadcast publishes changed runs to dashboards as `run-updated`: at once, then at most once per run in `RUN_PUSH_MS`.
 *
 * Only states on disk are published. The last state of a run is always published, even when earlier ones are skipped.
 */
class RunBroadcast implements CommitParticipant {
  readonly #ports: RunBroadcastPorts
  #changed = new Map<string, Run>()
  /** Runs that were published within the last `RUN_PUSH_MS`. */
  readonly #recent = new Map<string, RecentPush>()

  constructor(ports: RunBroadcastPorts) {
    this.#ports = ports
  }

  /** A dashboard that connects before the commit is on disk has read the state before it, so the change counts for it. */
  addChanged(run: Run): void {
    this.#changed.set(run.id, run)
  }

  contribute(): CommitContribution | undefined {
    if (this.#changed.size === 0) return undefined
    const changed = this.#changed
    this.#changed = new Map()
    return {
      writes: [],
      onCommitted: () => {
        if (!this.#ports.hasSubscribers()) return
        for (const run of changed.values()) this.publish(run)
      },
    }
  }

  /** Publishes a run. The caller guarantees that its state is on disk. */
  publish(run: Run): void {
    const recent = this.#recent.get(run.id)
    if (recent !== undefined) recent.latest = run
    else this.#publishNow(run)
  }

  /** How many runs were published within the last `RUN_PUSH_MS`. */
  get size(): number {
    return this.#recent.size
  }

  /** Drops the states that were to be published later. */
  dropLater(): void {
    for (const { cancel } of this.#recent.values()) cancel()
    this.#recent.clear()
  }

  #publishNow(run: Run): void {
    const cancel = this.#ports.clock.after(RUN_PUSH_MS, () => {
      const latest = this.#recent.get(run.id)?.latest
      this.#recent.delete(run.id)
      if (latest !== undefined) this.#publishNow(latest)
    })
    this.#recent.set(run.id, { latest: undefined, cancel })
    this.#ports.push(run)
  }
}
