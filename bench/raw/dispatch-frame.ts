/** Builds dispatch frames with as many bytes as those of the product, for bare servers and for the jobs of peers. */
import { buildJob } from '../../core/run/job.ts'
import { configDefaults } from '../../protocol/config.ts'
import { waitingRun } from './stored-runs.ts'

const repo = { key: 'main', mapping: { remote: 'owner/name' } }
const job = buildJob({
  kind: 'run',
  run: waitingRun(1),
  config: configDefaults,
  repo,
  memories: [],
  storedLogBytes: 0,
})

/** Has as many bytes as the product's frame and is serialized as late; the job is prepared once. */
export function dispatchFrame(id: string, runId: string): string {
  const lease = { id, runId, expiresAt: '2026-01-31T12:00:00.000Z', remainingMs: 165_000 }
  return JSON.stringify({ type: 'dispatch', lease, job: { ...job, run: { ...job.run, id: runId } } })
}

/** Ids as long as those of the product. */
export const leaseIdOf = (at: number): string => `ls-${String(at).padStart(32, '0')}`
