/**
 * Law 35: nothing that can't be made again is deleted because one clock is wrong.
 *
 * The law knows the true time. A simulation lasts two hours, so nothing that is kept for days may go in it, unless two
 * machines have agreed on a later time: a host believes a clock that another machine confirms.
 */
import type { SimWorker } from '../sim-worker.ts'
import type { Law } from './law.ts'

/** Two clocks that agree may differ by an hour, and the host's may be off by as much. */
const EARLY_MS_MAX = 2 * 3_600_000

export const retentionLaws: readonly Law[] = [
  {
    number: '35',
    sentence: "nothing that can't be made again is deleted on one reading of one clock",
    observe: (view, fail) => {
      let confirmedErrorMs = 0
      const judge = (worker: SimWorker, runId: string, how: string) => {
        const earlyMs = (worker.sandboxDueAt(runId) ?? 0) - view.now() - confirmedErrorMs
        if (earlyMs > EARLY_MS_MAX)
          fail(`${worker.plan.id} ${how} the sandbox of ${runId} too early`, { earlyMs })
      }
      return {
        onTick: () => {
          confirmedErrorMs = Math.max(confirmedErrorMs, view.sharedClockErrorMs())
        },
        onSandboxReclaimed: (worker, runId) => judge(worker, runId, 'reclaims'),
        onSandboxDiscarded: (worker, runId) => {
          // An interrupted run goes on elsewhere, so the host gives the old sandbox up, and no clock is asked.
          const holder = view.run(runId)?.sandbox.workerId
          const isElsewhere = holder !== undefined && holder !== worker.workerId
          if (!view.wasDiscarded(runId) && !isElsewhere) judge(worker, runId, 'discards')
        },
        onBeforeCommit: ({ changes }) => {
          if (confirmedErrorMs > EARLY_MS_MAX) return
          for (const change of changes)
            if (change.is === 'key-value' && change.collection === 'ended-lease' && change.row === null)
              fail('the end of a lease is forgotten within hours', { key: change.key })
        },
      }
    },
  },
]
