/**
 * Sets whose sandbox an accepted run has, and until when the sandbox of a finished run is retained.
 */
import { DEFAULT_SANDBOX_PROVIDER } from '../../protocol/config.ts'
import type { RunOutcome } from '../../protocol/frames.ts'
import { RETENTION_SLACK_HOURS } from '../../protocol/limits.ts'
import type { RunSandbox } from '../../protocol/run-sandbox.ts'
import { extend } from '../extend.ts'

const HOUR_MS = 3_600_000

export interface AcceptingWorker {
  readonly workerId: string
  readonly workerName?: string | undefined
}

export const isOfOtherWorker = ({ workerId }: RunSandbox, by: AcceptingWorker): boolean =>
  workerId !== undefined && workerId !== by.workerId

/** The record keeps the worker's name, because the worker may be removed later. */
export function acceptSandbox(sandbox: RunSandbox, by: AcceptingWorker): RunSandbox {
  const { provider = DEFAULT_SANDBOX_PROVIDER } = sandbox
  const { workerId, workerName } = by
  const accepted: RunSandbox = extend(isOfOtherWorker(sandbox, by) ? {} : sandbox, { provider, workerId })
  if (workerName !== undefined) accepted.workerName = workerName
  return accepted
}

/** The worker's retention instant is used unless it is too late. An instant in the past is normal after an absence. */
export function retainedSandbox(
  sandbox: RunSandbox,
  outcome: RunOutcome,
  by: { readonly now: string; readonly retentionHours: number },
): RunSandbox {
  const { provider = DEFAULT_SANDBOX_PROVIDER, ...known } = sandbox
  delete known.retainedUntil
  if (outcome.sandbox?.unpublished !== true) delete known.unpublished
  if (known.id === undefined) return { provider, ...known }
  return { provider, ...known, retainedUntil: retainedUntil(outcome.sandbox?.retainedUntil, by) }
}

function retainedUntil(
  reported: string | undefined,
  { now, retentionHours }: { readonly now: string; readonly retentionHours: number },
): string {
  const from = Date.parse(now)
  const latest = from + (retentionHours + RETENTION_SLACK_HOURS) * HOUR_MS
  if (reported !== undefined && Date.parse(reported) <= latest) return reported
  return new Date(from + retentionHours * HOUR_MS).toISOString()
}
