/**
 * Describes a run's change of status in one line for the log: the ticket, the status, the worker or the time taken, the
 * costs so far, the pull request, and the reason of a wait or a failure.
 */
import type { Run } from '../../protocol/run.ts'
import { formatDuration } from '../format-duration.ts'
import { formatUsd } from '../format-usd.ts'
import { toSingleLine, truncate } from '../safe-text.ts'
import { isTerminal } from './run-transitions.ts'

const REASON_CHARS_MAX = 300

export interface TransitionFacts {
  readonly run: Run
  /** The name of the run's worker, when the fleet still knows it. */
  readonly workerName: string | undefined
  /** The instant of the transition in milliseconds. */
  readonly now: number
}

export function describeTransition({ run, workerName, now }: TransitionFacts): string {
  const { status, ticket, costTotals, prUrl } = run
  const elapsed = elapsedMs(run, now)
  const how = [
    status === 'preparing' && workerName !== undefined ? ` on ${toSingleLine(workerName)}` : '',
    elapsed === undefined ? '' : ` ${isTerminal(status) ? 'in' : 'after'} ${formatDuration(elapsed)}`,
  ].join('')
  const { costUsd, estimated = false } = costTotals ?? {}
  const cost = costUsd === undefined ? [] : [formatUsd({ costUsd, estimated })]
  const parts = [`${status}${how}`, ...cost, ...(prUrl === undefined ? [] : [prUrl])]
  const reason = status === 'queued' ? run.queueReason : run.error
  const why = reason === undefined ? '' : `: ${truncate(toSingleLine(reason), REASON_CHARS_MAX)}`
  return `${toSingleLine(ticket.identifier)} ${parts.join(', ')}${why}`
}

/** How long the run has been with its worker; undefined in the queue and at the start of the preparation. */
export function elapsedMs({ status, startedAt, finishedAt }: Run, now: number): number | undefined {
  if (startedAt === undefined || status === 'queued' || status === 'preparing') return undefined
  const end = isTerminal(status) && finishedAt !== undefined ? Date.parse(finishedAt) : now
  return Math.max(0, end - Date.parse(startedAt))
}
