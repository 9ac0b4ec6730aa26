/**
 * A filter decides which runs a list is about, and a rank in what order they stand.
 *
 * The host asks the filter of each stored run, and a page of each run that is pushed to it, so that both agree.
 */
import { fingerprintOf } from './fingerprint.ts'
import type { PullState, Run, RunStatus } from './run.ts'
import { type AgentSettings, agentOf } from './run-agent.ts'
import { createWordSearch } from './word-search.ts'

/** Absent fields leave every run. */
export interface RunFilter {
  readonly status?: readonly RunStatus[] | undefined
  /** The id or the identifier of a ticket. */
  readonly ticket?: string | undefined
  /** Words, each of which the run's id, ticket or error has. */
  readonly q?: string | undefined
  readonly repo?: string | undefined
  readonly agent?: string | undefined
  /** The name of a worker. */
  readonly worker?: string | undefined
  /** The fingerprint of an error. */
  readonly failure?: string | undefined
  /** Instants of creation; the second one is excluded. */
  readonly since?: string | undefined
  readonly until?: string | undefined
  /** The earliest instant of the run's end. */
  readonly endedSince?: string | undefined
  readonly prState?: readonly PullState[] | undefined
}

export function createRunFilter(filter: RunFilter, settings: AgentSettings): (run: Run) => boolean {
  const { status, ticket, repo, agent, worker, failure, prState } = filter
  const hasWords = createWordSearch(filter.q)
  const since = filter.since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(filter.since)
  const until = filter.until === undefined ? Number.POSITIVE_INFINITY : Date.parse(filter.until)
  const endedSince = filter.endedSince === undefined ? undefined : Date.parse(filter.endedSince)
  const isInTime = ({ createdAt, finishedAt = '' }: Run): boolean => {
    const at = Date.parse(createdAt)
    return at >= since && at < until && (endedSince === undefined || Date.parse(finishedAt) >= endedSince)
  }
  return (run) =>
    (status === undefined || status.includes(run.status)) &&
    (ticket === undefined || run.ticket.id === ticket || run.ticket.identifier === ticket) &&
    (repo === undefined || run.ticket.repo === repo) &&
    (agent === undefined || agentOf(run, settings) === agent) &&
    (worker === undefined || run.sandbox.workerName === worker) &&
    (failure === undefined || failureOf(run) === failure) &&
    (prState === undefined || (run.prState !== undefined && prState.includes(run.prState))) &&
    isInTime(run) &&
    hasWords(`${run.id} ${run.ticket.identifier} ${run.ticket.title} ${run.error ?? ''}`)
}

// ---- failures ----------------------------------------------------------------------------------------------------

export const failureOf = ({ status, error }: Pick<Run, 'status' | 'error'>): string | undefined =>
  status === 'failed' && error !== undefined ? fingerprintOf(error) : undefined

// ---- order -------------------------------------------------------------------------------------------------------

export const RUN_SORTS = ['newest', 'oldest', 'cost', 'length'] as const
export type RunSort = (typeof RUN_SORTS)[number]

/** The higher it is, the earlier the run stands; equal ones stand newest first. */
export function rankOf(run: Run, sort: Exclude<RunSort, 'newest'>): number {
  if (sort === 'oldest') return -Date.parse(run.createdAt)
  if (sort === 'cost') return run.costTotals?.costUsd ?? -1
  const { startedAt, finishedAt } = run
  return startedAt === undefined || finishedAt === undefined
    ? -1
    : Date.parse(finishedAt) - Date.parse(startedAt)
}
