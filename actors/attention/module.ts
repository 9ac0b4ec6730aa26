/** The attention module keeps the list of what needs a person, and pushes it to dashboards when it has changed. */

import { type CollectedAttention, mayNeedAttention } from '../../core/attention/collect-attention.ts'
import type { AttentionFacts, AwayWorker } from '../../core/attention/facts.ts'
import { isLoss } from '../../core/damage.ts'
import type { StoreState } from '../../core/ports/store.ts'
import type { Result } from '../../core/result.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import { ATTENTION_RUNS_MAX } from '../../protocol/limits.ts'
import type { PullSummary } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import { LEASE } from '../leases/lease.names.ts'
import { RUN } from '../runs/run.machine.ts'
import type { ModuleViews } from '../runtime/module.ts'
import { observeKind } from '../runtime/module.ts'
import { TRACKER_CONNECTION } from '../tracker/tracker-connection.machine.ts'
import { TRACKER_POLL } from '../tracker/tracker-poll.machine.ts'
import { CONNECTION, WORKER } from '../workers/worker.machine.ts'
import { AttentionBroadcast } from './attention-broadcast.ts'
import type { Trouble } from './known-troubles.ts'
import { type DescribedPull, hasTrackerProblem, refusalSubject, TroubleWatch } from './trouble-watch.ts'

export interface AttentionView {
  list(): CollectedAttention
  /** A person knows of a loss. Refused for what is unknown, and for what can be mended. */
  acknowledge(id: string): Result<void>
  /** Sentences about what keeps the host from its whole work; the same array while nothing changes. */
  degraded(): readonly string[]
  /** The newest run that worked on a pull request. */
  openerOf(pullUrl: string): PullOpener | undefined
  /** The code host has described a pull request. */
  onPullDetail(detail: DescribedPull): void
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly attention: AttentionView
  }
}

type NeededViews = Pick<ModuleViews, 'runs' | 'tracker' | 'workers' | 'scheduler' | 'troubles' | 'jobs'>

export const attentionModule = defineHostModule({
  name: 'attention',
  create(context, { runs, tracker, workers, scheduler, troubles, jobs }) {
    const views: NeededViews = { runs, tracker, workers, scheduler, troubles, jobs }
    const endedRuns = new EndedRuns()
    const startedAt = context.clock.now()
    const facts = (): AttentionFacts => ({ startedAt, ...factsOfViews(context, views, endedRuns) })
    const attentionBroadcast = new AttentionBroadcast({ ...context, facts })
    const onChange = () => attentionBroadcast.onChange()
    const watch = new TroubleWatch(context, views, endedRuns)
    const stopListening = watch.listen(onChange)
    const onTracker = () => {
      watch.onTracker()
      onChange()
    }
    return {
      view: {
        list: () => attentionBroadcast.read(),
        acknowledge: (id) => watch.acknowledge(id, onChange),
        degraded: () => attentionBroadcast.degraded(),
        openerOf: (pullUrl) => endedRuns.openerOf(pullUrl),
        onPullDetail(detail) {
          if (watch.onPullDetail(detail)) onChange()
        },
      },
      participants: [attentionBroadcast],
      onStateChange: [
        observeKind(RUN, (change) => {
          const { run } = change.after.context
          endedRuns.update(run)
          // A follow-up has brought the pull request up to date, or tried to.
          if (change.over && run.prUrl !== undefined)
            for (const kind of ['conflict', 'verdict'] as const) troubles.end(kind, run.prUrl)
          watch.onRun(change)
          onChange()
        }),
        observeKind(LEASE, onChange),
        observeKind(WORKER, ({ key, over }) => {
          if (over) watch.onWorkerRemoved(key)
          onChange()
        }),
        observeKind(CONNECTION, (change) => {
          watch.onConnection(change)
          onChange()
        }),
        observeKind(TRACKER_CONNECTION, onTracker),
        observeKind(TRACKER_POLL, onTracker),
      ],
      onViewChange(change) {
        if (change.view === 'terminals' || change.view === 'worker watched') return
        const run = change.view === 'finished run' ? runs.latest(change.key) : undefined
        if (run !== undefined) endedRuns.update(run)
        onChange()
      },
      start() {
        const newest = context.store.database.runs.list({ limit: ATTENTION_RUNS_MAX })
        endedRuns.load(newest.map((run) => runs.latest(run.id) ?? run))
        watch.start()
        void context.store.events.findDamage()
        onChange()
      },
      onConfigChange() {
        watch.dropUnneeded()
        onChange()
      },
      stop() {
        stopListening()
        attentionBroadcast.stop()
      },
      sizes: () => ({ endedRuns: endedRuns.size }),
    }
  },
})

// ---- facts -------------------------------------------------------------------------------------------------------

function factsOfViews(
  { clock, config, store, instant }: HostContext,
  views: NeededViews,
  ended: EndedRuns,
): Omit<AttentionFacts, 'startedAt'> {
  const { runs, tracker, troubles, jobs } = views
  const endedRuns = ended.all()
  const listed = tracker.intake.listed()
  const tickets = endedRuns.map(({ ticket }) => ticket.id)
  return {
    now: clock.now(),
    config: config(),
    endedRuns,
    activeTickets: new Set(tickets.filter((id) => runs.activeRunOf(id) !== undefined)),
    closedTickets: new Set(tickets.filter((id) => listed.get(id)?.closed === true)),
    limits: new Map(
      [...troubles.of('limit')].flatMap(([runId, { limit }]) =>
        limit === undefined ? [] : [[runId, limit]],
      ),
    ),
    conflicts: new Map([...troubles.of('conflict')].map(([url, { since }]) => [url, since])),
    verdicts: new Map([...troubles.of('verdict')].map(([url, { reason = '' }]) => [url, reason])),
    damage: store.database.damage
      .all()
      .filter((damage) => !(isLoss(damage) && troubles.of('acknowledged').has(damage.id)))
      .map((damage) => ({ damage, since: troubles.of('damage').get(damage.id)?.since ?? instant() })),
    credentials: waitingForCredentials(views),
    unreadable: unreadableRepositories(views, endedRuns),
    unmapped: unmappedRuns(views),
    unpublished: jobs.publishingRuns.refusedWork().map((work) => ({
      ...work,
      since: troubles.of('publish').get(refusalSubject(work.cause))?.since ?? instant(),
    })),
    withKeys: jobs.publishingRuns.withKeys(),
    awayWorkers: awayWorkers(views),
    fullWorkers: fullWorkers(views),
    ...diskFacts(store.database.state(), troubles.of('disk').get('')),
    ...trackerFacts(tracker.status(), troubles.of('tracker').get('')),
  }
}

function diskFacts(state: StoreState, known: Trouble | undefined): Pick<AttentionFacts, 'disk'> {
  if (state.is !== 'degraded' || known === undefined) return {}
  return { disk: { reason: state.reason, since: known.since } }
}

/** After a restart the tracker's trouble is what it was, until the tracker has answered or refused. */
function trackerFacts(
  status: TrackerStatus,
  known: Trouble | undefined,
): Pick<AttentionFacts, 'tracker' | 'trackerSince'> {
  if (known === undefined || status.state === 'disconnected') return { tracker: status }
  const tracker = hasTrackerProblem(status) ? status : (known.tracker ?? status)
  return { tracker, trackerSince: known.since }
}

function waitingForCredentials({ scheduler }: NeededViews): AttentionFacts['credentials'] {
  return [...scheduler.queue.runs()].flatMap((run) => {
    const blocked = scheduler.queue.blockedBy(run.id)
    return blocked?.gate === 'credential'
      ? [{ reason: blocked.reason, since: run.queuedAt ?? run.createdAt }]
      : []
  })
}

function unreadableRepositories(
  { scheduler, troubles, jobs, runs }: NeededViews,
  endedRuns: readonly Run[],
): AttentionFacts['unreadable'] {
  if (UNREADABLE.every((kind) => troubles.of(kind).size === 0)) return []
  const queued = [...scheduler.queue.runs()]
  const readersOf = (kind: (typeof UNREADABLE)[number], subject: string): Readers => {
    if (kind === 'pulls')
      return { waiting: [], unfollowed: endedRuns.filter(({ pull }) => pull?.remote === subject) }
    const followUp = kind === 'follow-up' ? runs.latest(subject) : undefined
    const needs = (run: Run) => jobs.preparation.needsOf(run)?.subjects.includes(subject) === true
    const waiting = followUp === undefined ? queued.filter(needs) : [followUp]
    return { waiting, unfollowed: [] }
  }
  return UNREADABLE.flatMap((kind) =>
    [...troubles.of(kind)].map(([subject, { since, reason = '' }]) => ({
      since,
      reason,
      ...readersOf(kind, subject),
    })),
  )
}

const UNREADABLE = ['repository', 'pulls', 'follow-up'] as const

type Readers = Pick<AttentionFacts['unreadable'][number], 'waiting' | 'unfollowed'>

function unmappedRuns({ scheduler, jobs }: NeededViews): AttentionFacts['unmapped'] {
  return [...scheduler.queue.runs()].flatMap((run) => {
    const blocked = scheduler.queue.blockedBy(run.id)
    const isUnmapped = blocked?.gate === 'repository' && !jobs.preparation.repoOf(run).ok
    return isUnmapped ? [{ run, reason: blocked.reason }] : []
  })
}

/** A worker whose disk is full is no trouble while no run waits. */
function fullWorkers({ workers, scheduler, troubles }: NeededViews): AttentionFacts['fullWorkers'] {
  if (scheduler.queue.readyCount === 0) return []
  return [...troubles.of('worker-disk')].flatMap(([id, { since, reason = '' }]) => {
    const worker = workers.registry.get(id)
    return worker?.online === true ? [{ id, name: worker.name, reason, since }] : []
  })
}

function awayWorkers({ workers, runs, scheduler, troubles, jobs }: NeededViews): AwayWorker[] {
  const lines = [...scheduler.queue.lines()]
  return [...workers.registry.all()].flatMap(({ id, name, online, leases, lastSeenAt, context }) => {
    if (online) return []
    const leasedRuns = [...leases].flatMap((lease) => {
      const runId = workers.registry.lease(lease)?.runId
      return runId === undefined ? [] : (runs.latest(runId) ?? [])
    })
    const waiting = lines.filter(({ workerId }) => workerId === id).flatMap((line) => [...line.runIds()])
    const goneSince = troubles.of('away').get(id)?.since
    const finalizing = leasedRuns.filter(({ status }) => status === 'finalizing')
    const seenAt = lastSeenAt === undefined ? context.enrolledAt : new Date(lastSeenAt).toISOString()
    return [
      {
        id,
        name,
        lastSeenAt: seenAt,
        ...(goneSince === undefined ? {} : { goneSince }),
        neededBy: [...leasedRuns, ...waiting.flatMap((run) => runs.latest(run) ?? [])],
        unpublished: [
          ...jobs.publishingRuns.heldBy(id),
          ...finalizing.map((run) => ({ run, artifacts: [] })),
        ],
      },
    ]
  })
}

// ---- runs that have ended ----------------------------------------------------------------------------------------

type PullOpener = NonNullable<PullSummary['run']>

/**
 * EndedRuns keeps the newest run of each ticket while it has ended and may need a person, and the newest run of each pull
 * request.
 *
 * A ticket with a newer run, or with a run that is queued again, is left out. The number of runs is bounded: the runs
 * that ended first are dropped.
 */
export class EndedRuns {
  /** By ticket id, the one that changed first in front. */
  readonly #runs = new Map<string, Run>()
  /** By the address of a pull request. */
  readonly #openers = new Map<string, PullOpener>()

  /** @param newestFirst runs with an actor and without */
  load(newestFirst: readonly Run[]): void {
    for (const run of newestFirst.toReversed()) this.#noteOpener(run)
    const seen = new Set<string>()
    const newest = newestFirst.filter(({ ticket }) => !seen.has(ticket.id) && seen.add(ticket.id))
    for (const run of newest.toReversed()) this.update(run)
  }

  /** A run that has not ended takes the place of the earlier runs of its ticket. */
  update(run: Run): void {
    this.#noteOpener(run)
    const known = this.#runs.get(run.ticket.id)
    // The record of an older run may still change, because its pull request is polled.
    if (known !== undefined && known.id > run.id && isTerminal(run.status)) return
    this.#runs.delete(run.ticket.id)
    if (!mayNeedAttention(run)) return
    this.#runs.set(run.ticket.id, run)
    const [oldest] = this.#runs.keys()
    if (oldest !== undefined && this.#runs.size > ATTENTION_RUNS_MAX) this.#runs.delete(oldest)
  }

  /** The run is looked for among the newest runs. */
  openerOf(pullUrl: string): PullOpener | undefined {
    return this.#openers.get(pullUrl)
  }

  #noteOpener({ id, prUrl, ticket }: Run): void {
    if (prUrl === undefined || (this.#openers.get(prUrl)?.id ?? '') > id) return
    this.#openers.delete(prUrl)
    this.#openers.set(prUrl, { id, ticket: ticket.identifier })
    const [oldest] = this.#openers.keys()
    if (oldest !== undefined && this.#openers.size > ATTENTION_RUNS_MAX) this.#openers.delete(oldest)
  }

  all(): readonly Run[] {
    return [...this.#runs.values()]
  }

  get size(): number {
    return this.#runs.size + this.#openers.size
  }
}
