/**
 * The one reducer of all totals: every count of the pages comes from here, so that two pages never disagree.
 *
 * Everything is derived from the records; nothing is counted along the way.
 */
import { hasEnded } from '../../../client/run-events.ts'
import type { AttentionItem } from '../../../protocol/attention.ts'
import type { Run, RunStatus } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { dayOf } from '../../text/times.ts'

export interface TotalsSource {
  readonly runs: Iterable<Run>
  readonly workers: readonly WorkerView[]
  readonly attention: readonly AttentionItem[]
  readonly attentionMore?: number
  readonly now: number
}

export function totalsOf({ runs, workers, attention, attentionMore = 0, now }: TotalsSource) {
  const today = dayOf(new Date(now))
  const unfinished = new Map<RunStatus, number>()
  const ended = new Map<RunStatus, number>()
  let openPulls = 0
  for (const run of runs) {
    if (!hasEnded(run)) count(unfinished, run.status)
    else if (run.finishedAt !== undefined && dayOf(new Date(run.finishedAt)) === today)
      count(ended, run.status)
    if (run.prState === 'open' || run.prState === 'draft') openPulls += 1
  }
  const of = (counts: ReadonlyMap<RunStatus, number>, status: RunStatus): number => counts.get(status) ?? 0
  const [preparing, running] = [of(unfinished, 'preparing'), of(unfinished, 'running')]
  const [finalizing, completedToday] = [of(unfinished, 'finalizing'), of(ended, 'completed')]
  const [failedToday, cancelledToday] = [of(ended, 'failed'), of(ended, 'cancelled')]
  return {
    queued: of(unfinished, 'queued'),
    preparing,
    running,
    finalizing,
    /** Preparing, running or finalizing. */
    inProgress: preparing + running + finalizing,
    // Runs that ended on this local day.
    completedToday,
    failedToday,
    cancelledToday,
    finishedToday: completedToday + failedToday + cancelledToday,
    openPulls,
    needsYou: attention.length + attentionMore,
    slots: sum(workers, (worker) => worker.capabilities?.maxConcurrency ?? 0),
    takenSlots: sum(workers, ({ activeRuns }) => activeRuns),
  }
}

function count(counts: Map<RunStatus, number>, status: RunStatus): void {
  counts.set(status, (counts.get(status) ?? 0) + 1)
}

const sum = <T>(items: readonly T[], figure: (item: T) => number): number =>
  items.reduce((total, item) => total + figure(item), 0)
