/**
 * TroubleWatch says when the troubles begin and end that no other record holds: of repositories, the tracker, the disk.
 *
 * A repository that can't be read is in trouble until a worker has read it, or no run needs it. A try in between is no
 * end, and neither is a restart.
 */
import { itemIdOf } from '../../core/attention/collect-attention.ts'
import { damageText } from '../../core/damage.ts'
import type { Cancel } from '../../core/ports/clock.ts'
import type { PullDetailFacts } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { JobNeeds } from '../../core/run/job-needs.ts'
import { topicOf } from '../../core/run/queue-reasons.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import { truncate } from '../../core/safe-text.ts'
import { verdictOf } from '../../protocol/pull-concerns.ts'
import type { Run } from '../../protocol/run.ts'
import type { TrackerStatus } from '../../protocol/tracker.ts'
import type { HostContext } from '../host-context.ts'
import type { RunContext } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import type { ModuleViews } from '../runtime/module.ts'
import type { ConnectionContext } from '../workers/connection.machine.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import type { EndedRuns } from './module.ts'

export type DescribedPull = Pick<
  PullDetailFacts,
  'url' | 'mergeableState' | 'checks' | 'checksLookupFailed' | 'conversation'
>

/** The value of `mergeableState` that every code host gives for conflicts. */
const HAS_CONFLICTS = 'dirty'

type TroubleModules = Pick<ModuleViews, 'troubles' | 'tracker' | 'workers' | 'jobs'>

export class TroubleWatch {
  readonly #context: HostContext
  readonly #modules: TroubleModules
  readonly #endedRuns: EndedRuns
  readonly #loggedDamage = new Set<string>()

  constructor(context: HostContext, modules: TroubleModules, endedRuns: EndedRuns) {
    this.#context = context
    this.#modules = modules
    this.#endedRuns = endedRuns
  }

  start(): void {
    this.onDamage()
    this.onDisk()
    this.#onRefusedWork()
    this.dropUnneeded()
  }

  /** Calls `onChange` when the disk or the damage has changed. */
  listen(onChange: () => void): Cancel {
    const { database } = this.#context.store
    const stops = [
      database.damage.onChange((mended) => {
        if (mended !== undefined) this.#onMended(mended)
        this.onDamage()
        onChange()
      }),
      database.onState(() => {
        this.onDisk()
        onChange()
      }),
    ]
    return () => {
      for (const stop of stops) stop()
    }
  }

  /** The code host has described a pull request. Returns whether the answer changed what is known. */
  onPullDetail(pull: DescribedPull): boolean {
    const { instant } = this.#context
    const { troubles } = this.#modules
    const { url, mergeableState } = pull
    const hasConflictChanged =
      mergeableState === HAS_CONFLICTS
        ? troubles.begin('conflict', url, { since: instant() })
        : troubles.end('conflict', url)
    const reason = verdictOf(pull)
    // A code host that could not tell all checks says nothing about those that were red before.
    if (reason === undefined && pull.checksLookupFailed === true) return hasConflictChanged
    const hasVerdictChanged =
      reason === undefined
        ? troubles.end('verdict', url)
        : troubles.begin('verdict', url, { since: instant(), reason })
    return hasConflictChanged || hasVerdictChanged
  }

  onRun({ before, after, over, restored }: StateChange<RunContext>): void {
    const { instant } = this.#context
    const { troubles } = this.#modules
    const { run, publishing } = after.context
    const wasPublishing = (before?.context.publishing ?? null) !== null
    // While runs are being restored, most of the refusals are missing.
    if (!restored && (publishing !== null || wasPublishing)) this.#onRefusedWork()
    const reason = run.status === 'queued' ? (run.queueReason ?? '') : ''
    const [subject = ''] = reason.split(': ')
    if (topicOf(subject) === 'repository') troubles.begin('repository', subject, { since: instant(), reason })
    if (troubles.of('repository').size === 0) return
    if (run.status === 'running' || run.status === 'completed')
      for (const read of this.#needsOf(run)?.subjects ?? []) troubles.end('repository', read)
    if (over) this.dropUnneeded()
  }

  /** The connections that end because the host stops say nothing about a worker. */
  onConnection({ after, over }: StateChange<ConnectionContext>): void {
    const { instant, isOpen } = this.#context
    const { troubles, workers } = this.#modules
    const { workerId } = after.context
    if (workerId === null) return
    const worker = workers.registry.get(workerId)
    if (worker?.online === true) troubles.end('away', workerId)
    else if (over && isOpen() && worker !== undefined && this.#mayHoldWork(worker))
      troubles.begin('away', workerId, { since: instant() })
  }

  onWorkerRemoved(workerId: string): void {
    this.#modules.troubles.end('away', workerId)
    this.#modules.troubles.end('worker-disk', workerId)
  }

  #onRefusedWork(): void {
    const { instant } = this.#context
    const { troubles, jobs } = this.#modules
    const subjects = new Set(jobs.publishingRuns.refusedWork().map(({ cause }) => refusalSubject(cause)))
    for (const subject of subjects) troubles.begin('publish', subject, { since: instant() })
    for (const known of [...troubles.of('publish').keys()])
      if (!subjects.has(known)) troubles.end('publish', known)
  }

  #needsOf(run: Run): JobNeeds | undefined {
    return this.#modules.jobs.preparation.needsOf(run)
  }

  /** Whether a sandbox of the worker holds finished work, or may come to hold it. */
  #mayHoldWork({ id, leases }: EnrolledWorker): boolean {
    const isHolder = ({ sandbox }: Run) => sandbox.workerId === id && sandbox.unpublished === true
    const isHolding = this.#modules.jobs.publishingRuns.heldBy(id).length > 0
    return leases.size > 0 || isHolding || this.#endedRuns.all().some(isHolder)
  }

  /** Ends the troubles of repositories that no unfinished run needs any more. */
  dropUnneeded(): void {
    const { system } = this.#context
    const { troubles } = this.#modules
    const subjects = [...troubles.of('repository').keys()]
    if (subjects.length === 0) return
    const needed = new Set<string>()
    for (const key of system.keys(RUN)) {
      const run = system.peek(RUN, key)?.context.run
      if (run === undefined || isTerminal(run.status)) continue
      for (const subject of this.#needsOf(run)?.subjects ?? []) needed.add(subject)
    }
    for (const subject of subjects) if (!needed.has(subject)) troubles.end('repository', subject)
  }

  /** The tracker is in trouble until it has answered: a process that has just started knows nothing yet. */
  onTracker(): void {
    const { instant } = this.#context
    const { troubles, tracker } = this.#modules
    const { state, error, lastPollAt } = tracker.status()
    if (hasTrackerProblem({ state, error }))
      troubles.begin('tracker', '', {
        since: instant(),
        tracker: { state, ...(error === undefined ? {} : { error }) },
      })
    else if (lastPollAt !== undefined) troubles.end('tracker', '')
  }

  onDisk(): void {
    const { store, instant } = this.#context
    const { troubles } = this.#modules
    if (store.database.state().is === 'degraded') troubles.begin('disk', '', { since: instant() })
    else troubles.end('disk', '')
  }

  /** The loss stays acknowledged when the folder with the list of it is gone. */
  acknowledge(itemId: string, onChange: () => void): Result<void> {
    const { store, instant } = this.#context
    const { troubles } = this.#modules
    const damage = store.database.damage.all().find((each) => itemIdOf(each) === itemId)
    if (damage === undefined || troubles.of('acknowledged').has(damage.id))
      return no('unknown', `nothing damaged has the id ${itemId}: GET /api/attention lists what has`)
    if (damage.lost === undefined)
      return no(
        'conflict',
        `${damage.id} can't be acknowledged, because it can be mended: ${damageText(damage)}`,
      )
    for (const id of [...damage.lost, damage.id]) troubles.begin('acknowledged', id, { since: instant() })
    onChange()
    return yes(undefined)
  }

  /** Later damage of the same record is another one. */
  #onMended(id: string): void {
    this.#modules.troubles.end('damage', id)
    this.#modules.troubles.end('acknowledged', id)
    this.#loggedDamage.delete(id)
  }

  onDamage(): void {
    const { store, instant, log } = this.#context
    const { troubles } = this.#modules
    for (const damage of store.database.damage.all()) {
      troubles.begin('damage', damage.id, { since: instant() })
      if (this.#loggedDamage.has(damage.id)) continue
      this.#loggedDamage.add(damage.id)
      const { since } = troubles.of('damage').get(damage.id) ?? {}
      log.error({ ...damage, since }, 'a part of the data directory is damaged')
    }
  }
}

/** A cause may quote a program at length, and the key of a stored trouble is short. */
export const refusalSubject = (cause: string): string => truncate(cause, 100)

export const hasTrackerProblem = ({
  state,
  error,
}: Pick<TrackerStatus, 'state'> & { error?: string | undefined }): boolean =>
  state === 'auth-error' || state === 'refresh-failing' || (state === 'connected' && error !== undefined)
