/** Law 37: work that an agent finished is published or kept, and no agent is paid twice for it. */
import type { WorkerFrame } from '../../../protocol/frames.ts'
import type { SimWorker } from '../sim-worker.ts'
import { frameChangesIn } from '../worker-disk.ts'
import type { Law } from './law.ts'

/** The clocks of host and worker may differ by so much without being doubted. */
const CLOCKS_APART_MS_MAX = 2 * 3_600_000

interface KeptWork {
  readonly worker: SimWorker
  readonly workerId: string
  /** The true time until which it is kept. An execution that publishes it suspends that. */
  readonly dueAt: number
}

export const publishingLaws: readonly Law[] = [
  {
    number: '37',
    sentence: 'while finished work of a run is kept, its run does not fail and no agent is asked again',
    observe: (view, fail) => {
      /** Ends that say that work is kept and could not be published, by lease. */
      const refused = new Map<string, KeptWork>()
      /** By run, from the moment at which the host knows it. */
      const kept = new Map<string, KeptWork>()
      /** Runs that a person cancelled: these end, and their work stays for a retry. */
      const unwanted = new Set<string>()
      const isLost = ({ dueAt, workerId }: KeptWork) =>
        view.worker(workerId) === undefined || !(dueAt > view.now() + CLOCKS_APART_MS_MAX)
      const forget = (worker: SimWorker, runId: string) => {
        if (kept.get(runId)?.worker === worker) kept.delete(runId)
      }
      return {
        onRequest: ({ operation, runId = '' }) => {
          if (operation === 'cancel') unwanted.add(runId)
        },
        onResponse: ({ operation, runId = '' }, ok) => {
          if (operation === 'retry' && ok) unwanted.delete(runId)
        },
        onBeforeWorkerCommit: (worker, { changes }) => {
          for (const { leaseId, stored } of frameChangesIn(changes)) {
            if (stored?.as !== 'end') continue
            const runId = view.lease(leaseId)?.runId ?? ''
            const { outcome } = JSON.parse(stored.text) as Extract<WorkerFrame, { type: 'run-complete' }>
            const isLost = outcome.status === 'failed' && outcome.failure !== 'publish'
            if (isLost && outcome.sandbox?.unpublished === true)
              fail(`${leaseId} ends as if its finished work were lost`, { error: outcome.error })
            const { workerId = '' } = worker
            const dueAt = worker.sandboxDueAt(runId) ?? 0
            if (outcome.failure === 'publish') refused.set(leaseId, { worker, workerId, dueAt })
          }
        },
        onCommitted: ({ changes }) => {
          for (const change of changes) {
            if (change.is !== 'key-value' || change.collection !== 'ended-lease' || change.row === null)
              continue
            const { how, runId } = { how: '', runId: '', ...change.row.value }
            const work = refused.get(change.key)
            if (how !== 'completed') continue
            if (work === undefined) kept.delete(runId)
            else kept.set(runId, work)
          }
          for (const [runId, work] of kept) {
            const run = view.run(runId)
            // The pull request of a run whose lease ran out shows that its work is published.
            if (run?.status === 'completed' || isLost(work)) kept.delete(runId)
            else if (run?.status === 'failed' && !unwanted.has(runId))
              fail(`${runId} fails although its work is kept`, { error: run.error })
          }
        },
        onSandboxDiscarded: forget,
        onSandboxReclaimed: forget,
        onAgentStarted: ({ runId, leaseId }) => {
          const work = kept.get(runId)
          if (work !== undefined && !isLost(work))
            fail(`the agent of ${runId} is paid again`, { leaseId, keptOn: work.worker.plan.id })
        },
      }
    },
  },
]
