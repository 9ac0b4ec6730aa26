/** The attention module keeps the list of what needs a person, and pushes it to dashboards when it has changed. */

import type { CollectedAttention } from '../../core/attention/collect-attention.ts'
import type { AttentionFacts, AwayWorker, KnownSince } from '../../core/attention/facts.ts'
import type { PullDetailFacts } from '../../core/provider-ports.ts'
import { topicOf } from '../../core/run/queue-reasons.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { LEASE } from '../leases/lease.names.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { TRACKER_CONNECTION } from '../tracker/tracker-connection.machine.ts'
import { CONNECTION, WORKER } from '../workers/worker.names.ts'
import { AttentionBroadcast } from './attention-broadcast.ts'
import { EndedRuns } from './ended-runs.ts'
import { PullConflicts } from './pull-conflicts.ts'

export interface AttentionView {
  list(): CollectedAttention
  /** Sentences about what keeps the host from its whole work; the same array while nothing changes. */
  degraded(): readonly string[]
  /** The code host has described a pull request. */
  onPullDetail(detail: Pick<PullDetailFacts, 'url' | 'mergeableState'>): void
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly attention: AttentionView
  }
}

type NeededViews = Pick<ModuleViews, 'runRecords' | 'runs' | 'tracker' | 'workers' | 'scheduler'>

export const attentionModule = defineHostModule({
  name: 'attention',
  create(context, { runRecords, runs, tracker, workers, scheduler }) {
    const views: NeededViews = { runRecords, runs, tracker, workers, scheduler }
    const { clock, broadcast, instant, requestCommit, store } = context
    const endedRuns = new EndedRuns()
    const conflicts = new PullConflicts()
    const startedAt = clock.now()
    let trackerSince: string | undefined
    let knownDamage: readonly KnownSince[] = []
    const disk = new DiskTrouble(context)
    const facts = (): AttentionFacts => ({
      startedAt,
      ...factsOfViews(context, views, endedRuns),
      ...disk.facts(),
      conflicts: conflicts.since,
      damage: knownDamage,
      ...(trackerSince === undefined ? {} : { trackerSince }),
    })
    const attentionBroadcast = new AttentionBroadcast({ clock, broadcast, requestCommit, facts })
    const onChange = () => attentionBroadcast.onChange()

    function onDamage(): void {
      knownDamage = rememberDamage(knownDamage, context)
      onChange()
    }
    const stops = [store.database.damage.onChange(onDamage), store.database.onState(onChange)]
    onDamage()

    return {
      view: {
        list: () => attentionBroadcast.read(),
        degraded: () => attentionBroadcast.degraded(),
        onPullDetail(detail) {
          if (conflicts.record(detail, instant())) onChange()
        },
      },
      participants: [attentionBroadcast],
      onStateChange: {
        [RUN]({ after, over }) {
          const { run } = after.context as RunContext
          endedRuns.update(run)
          if (over && run.prUrl !== undefined) conflicts.forget(run.prUrl)
          onChange()
        },
        [LEASE]: onChange,
        [WORKER]: onChange,
        [CONNECTION]: onChange,
        [TRACKER_CONNECTION]() {
          trackerSince = hasProblem(tracker.status()) ? (trackerSince ?? instant()) : undefined
          onChange()
        },
      },
      onViewChange({ view, key }) {
        const run = view === 'finished run' && key !== undefined ? runs.latest(key) : undefined
        if (run !== undefined) endedRuns.update(run)
        onChange()
      },
      start() {
        const newest = store.database.runs.list({ limit: ATTENTION_RUNS_MAX })
        endedRuns.load(newest.map((run) => runs.latest(run.id) ?? run))
        onChange()
      },
      onConfigChange: onChange,
      stop() {
        for (const stop of stops) stop()
        attentionBroadcast.stop()
      },
      sizes: () => ({ endedRuns: endedRuns.size, pullConflicts: conflicts.since.size }),
    }
  },
})

const hasProblem = ({ state, error }: TrackerStatus): boolean =>
  state === 'auth-error' || state === 'refresh-failing' || (state === 'connected' && error !== undefined)

/** Logs what is newly damaged, and keeps since when the rest is known. */
function rememberDamage(
  before: readonly KnownSince[],
  { store, instant, log }: Pick<HostContext, 'store' | 'instant' | 'log'>,
): readonly KnownSince[] {
  const known = new Map(before.map((each) => [each.damage.id, each]))
  return store.database.damage.all().map((damage) => {
    const earlier = known.get(damage.id)
    if (earlier !== undefined) return earlier
    const since = instant()
    log.error({ ...damage, since }, 'a part of the data directory is damaged')
    return { damage, since }
  })
}

/** Remembers since when the disk takes no writes. */
class DiskTrouble {
  readonly #context: Pick<HostContext, 'store' | 'instant'>
  #since: string | undefined

  constructor(context: Pick<HostContext, 'store' | 'instant'>) {
    this.#context = context
  }

  facts(): Pick<AttentionFacts, 'disk'> {
    const state = this.#context.store.database.state()
    this.#since = state.is === 'degraded' ? (this.#since ?? this.#context.instant()) : undefined
    if (state.is !== 'degraded' || this.#since === undefined) return {}
    return { disk: { reason: state.reason, since: this.#since } }
  }
}

// ---- facts -------------------------------------------------------------------------------------------------------

function factsOfViews(
  { clock, config }: HostContext,
  views: NeededViews,
  ended: EndedRuns,
): Omit<AttentionFacts, 'startedAt' | 'conflicts' | 'damage' | 'trackerSince'> {
  const { runRecords, runs, tracker } = views
  const endedRuns = ended.all()
  const listed = tracker.intake.listed()
  const tickets = endedRuns.map(({ ticket }) => ticket.id)
  return {
    now: clock.now(),
    config: config(),
    endedRuns,
    activeTickets: new Set(tickets.filter((id) => runs.activeRunOf(id) !== undefined)),
    closedTickets: new Set(tickets.filter((id) => listed.get(id)?.closed === true)),
    limits: runRecords.usageLimits.byRun,
    credentials: waitingAt('credential', views),
    unreadable: waitingAt('repository', views).filter(isUnreadable),
    awayWorkers: awayWorkers(views),
    tracker: tracker.status(),
  }
}

function waitingAt(
  gate: 'credential' | 'repository',
  { scheduler }: NeededViews,
): AttentionFacts['credentials'] {
  return [...scheduler.queue.runs()].flatMap((run) => {
    const blocked = scheduler.queue.blockedBy(run.id)
    return blocked?.gate === gate ? [{ reason: blocked.reason, since: run.queuedAt ?? run.createdAt }] : []
  })
}

const isUnreadable = ({ reason }: { readonly reason: string }): boolean =>
  topicOf(reason.split(': ')[0] ?? reason) === 'repository'

function awayWorkers({ workers, runs }: NeededViews): AwayWorker[] {
  return [...workers.registry.all()].flatMap(({ id, name, online, leases, lastSeenAt, context }) => {
    if (online) return []
    const leasedRuns = [...leases].flatMap((lease) => {
      const runId = workers.registry.lease(lease)?.runId
      return runId === undefined ? [] : (runs.latest(runId) ?? [])
    })
    const seenAt = lastSeenAt === undefined ? context.enrolledAt : new Date(lastSeenAt).toISOString()
    return [{ id, name, lastSeenAt: seenAt, leasedRuns }]
  })
}
