/** Describes a run's change of status: in a line of the host's log, as an event of its own log, and for the metrics. */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import { formatDuration, formatMoney } from '../../protocol/format.ts'
import type { ReportedEvent, Run, RunStatus } from '../../protocol/run.ts'
import { toSingleLine, truncate } from '../safe-text.ts'
import { chooseRepo } from '../tickets/repo.ts'
import { isInterrupted } from './interruption.ts'
import { providerFor } from './run-options.ts'
import { isTerminal } from './run-transitions.ts'

export interface TransitionFacts {
  readonly run: Run
  /** The name of the run's worker, when the fleet still knows it. */
  readonly workerName: string | undefined
  /** The instant of the transition in milliseconds. */
  readonly now: number
}

const REASON_CHARS_MAX = 300

/**
 * Returns the line for the host's log: the ticket, the status, the worker or the time taken, the costs so far, the pull
 * request, and the reason of a wait or a failure.
 */
export function describeTransition({ run, workerName, now }: TransitionFacts): string {
  const { status, ticket, costTotals, prUrl } = run
  const elapsed = elapsedMs(run, now)
  const how = [
    status === 'preparing' && workerName !== undefined ? ` on ${toSingleLine(workerName)}` : '',
    elapsed === undefined ? '' : ` ${isTerminal(status) ? 'in' : 'after'} ${formatDuration(elapsed)}`,
  ].join('')
  const { costUsd, estimated = false } = costTotals ?? {}
  const cost = costUsd === undefined ? [] : [formatMoney({ costUsd, estimated })]
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

interface StatusFacts {
  readonly run: Run
  readonly from: RunStatus | undefined
  /** The name of the run's worker, when the fleet still knows it. */
  readonly workerName: string | undefined
  readonly config: ServiceConfig
  readonly at: string
}

/** Makes the event of a run's log that tells a change of its status: why, on which worker, with which agent. */
export function createStatusEvent({ run, from, workerName, config, at }: StatusFacts): ReportedEvent {
  const { status } = run
  const reason = run.error ?? run.queueReason
  const provider = status === 'running' ? agentProviderOf(run, config) : undefined
  return {
    at,
    type: 'status',
    ...(from === undefined ? {} : { from }),
    to: status,
    ...(reason === undefined ? {} : { reason }),
    ...(status === 'preparing' && workerName !== undefined ? { worker: workerName } : {}),
    ...(provider === undefined ? {} : { provider }),
  }
}

function agentProviderOf(run: Run, config: ServiceConfig): AgentProvider | undefined {
  const repo = chooseRepo(run.ticket, config.repos)
  return repo.ok ? providerFor(run, repo.value.mapping, config) : undefined
}

/** The end of a run for the metrics. The values are few, because each is a series of its own. */
export interface RunEnd {
  readonly job: 'run' | 'follow-up'
  readonly status: 'completed' | 'failed' | 'cancelled'
  /** `interrupted`: workers were lost. `reported`: the worker says why. `none`: the run did not fail. */
  readonly failure: 'none' | 'interrupted' | 'reported'
}

/** A follow-up that fails leaves its run completed with an error, so its end is judged by the error. */
export function classifyRunEnd({ status, error }: Run, job: RunEnd['job']): RunEnd | undefined {
  if (status !== 'completed' && status !== 'failed' && status !== 'cancelled') return undefined
  const hasFailed =
    status === 'failed' || (job === 'follow-up' && status === 'completed' && error !== undefined)
  if (!hasFailed) return { job, status, failure: 'none' }
  const isLost = isInterrupted({ status: 'failed', ...(error === undefined ? {} : { error }) })
  return { job, status: 'failed', failure: isLost ? 'interrupted' : 'reported' }
}
