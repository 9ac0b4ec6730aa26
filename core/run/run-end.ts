/**
 * Classifies the end of a run for the metrics. The values are few, because each is a series of its own.
 *
 * A follow-up that fails leaves its run completed with an error, so its end is judged by the error.
 */
import type { Run } from '../../protocol/run.ts'
import { isInterrupted } from './interruption.ts'

export interface RunEnd {
  readonly job: 'run' | 'follow-up'
  readonly status: 'completed' | 'failed' | 'cancelled'
  /** `interrupted`: workers were lost. `reported`: the worker says why. `none`: the run did not fail. */
  readonly failure: 'none' | 'interrupted' | 'reported'
}

export function classifyRunEnd({ status, error }: Run, job: RunEnd['job']): RunEnd | undefined {
  if (status !== 'completed' && status !== 'failed' && status !== 'cancelled') return undefined
  const hasFailed =
    status === 'failed' || (job === 'follow-up' && status === 'completed' && error !== undefined)
  if (!hasFailed) return { job, status, failure: 'none' }
  const isLost = isInterrupted({ status: 'failed', ...(error === undefined ? {} : { error }) })
  return { job, status: 'failed', failure: isLost ? 'interrupted' : 'reported' }
}
