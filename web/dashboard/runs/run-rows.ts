/** The list of runs: which of them fit the filters of the address, and in what order they stand. */
import type { Run } from '../../../protocol/run.ts'
import { fingerprintOf } from '../../../protocol/run-filter.ts'

export const RUN_FILTERS = ['status', 'repo', 'worker', 'text', 'failure'] as const
export type RunFilter = Readonly<Partial<Record<(typeof RUN_FILTERS)[number], string>>>

const newestAt = (run: Run): string => run.finishedAt ?? run.startedAt ?? run.createdAt

/** Newest first; `status` may name several with commas, `failure` is a fingerprint. */
export function filterRuns(runs: Iterable<Run>, filter: RunFilter): Run[] {
  const statuses = filter.status?.split(',') ?? []
  const words = (filter.text ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  const fits = (run: Run): boolean =>
    (statuses.length === 0 || statuses.includes(run.status)) &&
    (filter.repo === undefined || run.ticket.repo === filter.repo) &&
    (filter.worker === undefined || run.sandbox.workerName === filter.worker) &&
    (filter.failure === undefined || failureOf(run) === filter.failure) &&
    hasWords(run, words)
  return [...runs].filter(fits).sort((a, b) => (newestAt(a) > newestAt(b) ? -1 : 1))
}

function hasWords({ id, ticket, error = '' }: Run, words: readonly string[]): boolean {
  if (words.length === 0) return true
  const text = `${id} ${ticket.identifier} ${ticket.title} ${error}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

const failureOf = ({ status, error }: Run): string | undefined =>
  status === 'failed' && error !== undefined ? fingerprintOf(error) : undefined

export interface FailureGroup {
  readonly fingerprint: string
  readonly error: string
  readonly count: number
}

/** Failures that more than one of the runs has, the most frequent first. */
export function failureGroups(runs: Iterable<Run>): FailureGroup[] {
  const groups = new Map<string, FailureGroup>()
  for (const run of runs) {
    const fingerprint = failureOf(run)
    if (fingerprint === undefined) continue
    const before = groups.get(fingerprint)
    groups.set(fingerprint, {
      fingerprint,
      error: before?.error ?? run.error ?? '',
      count: (before?.count ?? 0) + 1,
    })
  }
  return [...groups.values()].filter(({ count }) => count > 1).sort((a, b) => b.count - a.count)
}
