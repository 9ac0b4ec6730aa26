/** The list of runs as the address asks for it: which runs, in what order, and which of the known ones belong there. */
import { RUNS_SKIPPED_MAX } from '../../../protocol/limits.ts'
import type { Run, RunStatus } from '../../../protocol/run.ts'
import type { AgentSettings } from '../../../protocol/run-agent.ts'
import { createRunFilter, RUN_SORTS, type RunSort } from '../../../protocol/run-filter.ts'
import type { RunSummaryQuery } from '../../../protocol/run-query.ts'
import { midnightBefore } from '../../text/days.ts'

/** As in the query of the address; times are local days there, or `today`, or the last days: `7d`. */
export const RUN_FILTERS = [
  'status',
  'repo',
  'agent',
  'worker',
  'q',
  'failure',
  'since',
  'until',
  'ended',
] as const
export type RunFilterName = (typeof RUN_FILTERS)[number]

export interface AskedRuns {
  /** The words of the address. */
  readonly words: Readonly<Partial<Record<RunFilterName, string>>>
  readonly filter: RunSummaryQuery
  readonly sort: RunSort
}

export function askedOf(query: URLSearchParams, now: number): AskedRuns {
  const words: AskedRuns['words'] = Object.fromEntries(
    RUN_FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? '']] : [])),
  )
  const { status, since, until, ended, ...others } = words
  const from = since === undefined ? undefined : beginOf(since, now)
  const end = ended === undefined ? undefined : beginOf(ended, now)
  const to = until === undefined ? undefined : midnightOf(until, 1)
  return {
    words,
    filter: {
      ...others,
      // The host refuses words that are no status.
      ...(status === undefined ? {} : { status: status.split(',') as RunStatus[] }),
      ...(from === undefined ? {} : { since: new Date(from).toISOString() }),
      ...(end === undefined ? {} : { endedSince: new Date(end).toISOString() }),
      ...(to === undefined ? {} : { until: new Date(to).toISOString() }),
    },
    sort: RUN_SORTS.find((sort) => sort === query.get('sort')) ?? 'newest',
  }
}

function beginOf(since: string, now: number): number | undefined {
  const days = since === 'today' ? 1 : Number(/^(\d{1,4})d$/.exec(since)?.[1])
  return Number.isNaN(days) ? midnightOf(since, 0) : midnightBefore(now, days - 1)
}

/** The beginning of the local day that many days after the one of the calendar; undefined for a text that is no day. */
function midnightOf(day: string, after: number): number | undefined {
  const noon = Date.parse(`${day}T12:00:00`)
  return Number.isNaN(noon) ? undefined : midnightBefore(noon, -after)
}

/** The pages that the host has answered. */
export interface ListedRuns {
  readonly ids: readonly string[]
  readonly isComplete: boolean
}

/** Whether the host answers with a next page; it skips only so many runs of a sorted list. */
export const isReadable = (sort: RunSort, { ids, isComplete }: ListedRuns): boolean =>
  !isComplete && (sort === 'newest' || ids.length <= RUNS_SKIPPED_MAX)

/**
 * The first page was read again, after an absence: what was read behind it stays where it joins on, and is read anew where
 * more runs have come between.
 */
export function withFirstPage(known: ListedRuns | undefined, first: ListedRuns): ListedRuns {
  const last = first.ids.at(-1)
  if (known === undefined || first.isComplete || last === undefined || !known.ids.includes(last)) return first
  return { ids: [...new Set([...first.ids, ...known.ids])], isComplete: known.isComplete }
}

/**
 * The newest runs are those that are known and fit, down to the last one that the host has listed; another order is the
 * host's.
 */
export function shownRuns(
  runs: ReadonlyMap<string, Run>,
  { filter, sort }: AskedRuns,
  listed: ListedRuns | undefined,
  settings: AgentSettings,
): readonly Run[] {
  const fits = createRunFilter(filter, settings)
  if (sort !== 'newest') return (listed?.ids ?? []).flatMap((id) => runs.get(id) ?? []).filter(fits)
  const last = listed?.isComplete === false ? (listed.ids.at(-1) ?? '') : ''
  return [...runs.values()]
    .filter((run) => run.id >= last && fits(run))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
}
