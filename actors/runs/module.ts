/**
 * The modules about runs: their records and events, the runs themselves, what stands between a queued run and a worker,
 * and what is done for a run at its code host and its bucket.
 */

import type { PullReference } from '../../core/ports/code-host.ts'
import { createEventPush } from '../../core/ports/connections.ts'
import type { Refusal } from '../../core/result.ts'
import { chooseRepoOfPull } from '../../core/run/follow-up.ts'
import { uselessHolder } from '../../core/run/interruption.ts'
import { remoteSubject, withCure } from '../../core/run/queue-reasons.ts'
import type { Run } from '../../protocol/run.ts'
import type { KnownTroubles } from '../attention/known-troubles.ts'
import { defineHostModule, type HostContext } from '../host-context.ts'
import type { StateChange } from '../runtime/actor-system.ts'
import { effectHandlers, observeKind } from '../runtime/module.ts'
import type { WorkersView } from '../workers/module.ts'
import { WORKER } from '../workers/worker.machine.ts'
import { FinishedRuns } from './finished-runs.ts'
import { AnsweredRemarks, FollowUpObserver } from './follow-up-observer.ts'
import { FollowUpReader } from './follow-up-reader.ts'
import { JobPreparation } from './job-preparation.ts'
import { Memories } from './memories.ts'
import { PublishingRuns } from './publishing-runs.ts'
import { PullConfirmer } from './pull-confirmer.ts'
import { PullStatePoller } from './pull-state-poller.ts'
import { isWaiting, RUN, type RunContext, runKind } from './run.machine.ts'
import { RunEventLog, splitLines } from './run-event-log.ts'
import { type RunEffect, RunManager } from './run-manager.ts'
import { RunPulls } from './run-pulls.ts'
import { DayCostsLedger, RunReport } from './run-report.ts'
import { requestDiscard } from './undelivered-discards.ts'

export interface RunRecordsView {
  readonly eventLog: RunEventLog
  readonly finishedRuns: FinishedRuns
  readonly report: RunReport
}

export interface JobsView {
  readonly preparation: JobPreparation
  readonly followUpReader: FollowUpReader
  readonly runPulls: RunPulls
  readonly publishingRuns: PublishingRuns
  /** The run, while it is in the queue without a lease. */
  waitingRun(runId: string): Run | undefined
}

declare module '../runtime/module.ts' {
  interface ModuleViews {
    readonly runRecords: RunRecordsView
    readonly memories: Memories
    readonly runs: RunManager
    readonly jobs: JobsView
    readonly pullStates: PullStates
  }
}

/** Events of runs, and records without an actor. */
export const runRecordsModule = defineHostModule({
  name: 'runRecords',
  create(context, { trustedClock, troubles }) {
    const { store, broadcast, requestCommit, publish } = context
    const dayCosts = new DayCostsLedger({ ...context, trustedClock, keyValues: store.database.keyValues })
    const report = new RunReport(context, dayCosts)
    const eventLog = new RunEventLog({
      events: store.events,
      requestCommit,
      onLimit: (limit) => troubles.set('limit', limit.runId, { since: limit.at, limit }),
      publish: (runId, lines) => {
        if (!broadcast.hasListeners) return
        for (const line of splitLines(lines)) broadcast.send(createEventPush(runId, line))
      },
    })
    const finishedRuns = new FinishedRuns(store.database.runs, requestCommit, (run, before) => {
      publish({ view: 'finished run', key: run.id })
      if (before !== undefined) report.onCosts(before, run)
      if (run.prState === 'merged' && before?.prState !== 'merged')
        publish({ view: 'pull merged', key: run.id })
    })
    return {
      view: { eventLog, finishedRuns, report },
      // Publish events first, so that a dashboard receives all events of a run before its end.
      participants: [eventLog, finishedRuns, report, dayCosts],
      reportGauges: (meters) => dayCosts.report(meters),
      sizes: () => ({ runsInLog: eventLog.size, runReports: report.size }),
    }
  },
})

/** The memories module stores what runs learnt about repositories. */
export const memoriesModule = defineHostModule({
  name: 'memories',
  create({ store, ids, requestCommit }, { runRecords }) {
    const { keyValues } = store.database
    const memories = new Memories({ keyValues, newId: () => ids.memory(), requestCommit })
    const onMerged = ({ id, pull }: Run): void => {
      if (pull !== undefined) memories.onPullMerged(id, pull.remote)
    }
    return {
      view: memories,
      participants: [memories],
      onStateChange: [
        observeKind(RUN, ({ before, after }) => {
          const { run } = after.context
          const wasMerged = before?.context.run.prState === 'merged'
          if (run.prState === 'merged' && !wasMerged) onMerged(run)
        }),
      ],
      onViewChange(change) {
        const run = change.view === 'pull merged' ? runRecords.finishedRuns.latest(change.key) : undefined
        if (run !== undefined) onMerged(run)
      },
    }
  },
})

/** Runs that are not finished. */
export const runsModule = defineHostModule({
  name: 'runs',
  kinds: [runKind],
  create(context, { runRecords, workers, troubles }) {
    const runs = new RunManager(context, runRecords, workers)
    return {
      view: runs,
      effects: effectHandlers<RunEffect>({ run: (effect) => runs.runEffect(effect) }),
      onStateChange: [
        observeKind(RUN, (change) => {
          runs.onRunChanged(change)
          const { status } = change.after.context.run
          // The next attempt may meet no limit.
          if (status === 'preparing') troubles.end('limit', change.key)
        }),
      ],
      sizes: () => ({ activeRuns: runs.size }),
    }
  },
})

/** The jobs module decides what a queued run waits for and prepares the job for its worker. */
export const jobsModule = defineHostModule({
  name: 'jobs',
  create(context, { runRecords, memories, runs, tracker, workers, trustedClock, troubles }) {
    const { store, instant, publish, requestCommit } = context
    const answeredRemarks = new AnsweredRemarks({ keyValues: store.database.keyValues, requestCommit })
    const runPulls = new RunPulls(context)
    const followUpReader = new FollowUpReader({
      ...context,
      trustedClock,
      placeOf: (run, codeHost) => runPulls.confirmedAt(run, codeHost),
      rulesFor: ({ id, ticket }, url, { remote }) => {
        const repo = chooseRepoOfPull(remote, ticket, context.config().repos)
        const orders = repo.ok ? repo.value.mapping.orders : undefined
        return { answered: answeredRemarks.answered(id, url), orders }
      },
      onWaitReasonChanged: (runId) => publish({ view: 'wait reason', key: runId }),
      onPullState: (runId, url, state) => runs.onPullState(runId, url, state),
      onAsked: (subject, remote, refusal) =>
        noteRead(context, troubles, { kind: 'follow-up', subject, remote }, refusal),
      onPullGone: (runId, reason) => void runs.send(runId, { type: 'pull gone', at: instant(), reason }),
    })
    const modules = { runRecords, memories, tracker, workers, trustedClock }
    const parts = { followUpReader, answeredRemarks, runPulls }
    const preparation = new JobPreparation(context, modules, parts)
    const observer = new FollowUpObserver(context, modules, parts)
    const publishingRuns = new PublishingRuns(context, workers.registry, runRecords.finishedRuns)
    return {
      view: {
        preparation,
        followUpReader,
        runPulls,
        publishingRuns,
        waitingRun: (runId) => waitingRunOf(context, runId),
      },
      participants: [answeredRemarks],
      onStateChange: [
        observeKind(RUN, (change) => {
          observer.onRunChange(change)
          publishingRuns.onRunChange(change)
          if (change.over) troubles.end('follow-up', change.key)
          discardUselessSandbox(context, workers, change)
          workers.setbacks.onRunChange(change, (run) => preparation.needsOf(run))
          if (preparation.isMoved(change)) workers.setbacks.onRunMoved(change.after.context.run)
        }),
        observeKind(WORKER, ({ key, over }) => {
          if (over) publishingRuns.onWorkerRemoved(key)
        }),
      ],
      onConfigChange() {
        followUpReader.onCodeHostChanged()
        publishingRuns.onConfigChange()
      },
      start: () => publishingRuns.start(),
      stop() {
        followUpReader.stop()
        publishingRuns.stop()
      },
      sizes: () => ({ followUps: followUpReader.size, publishingRuns: publishingRuns.size }),
    }
  },
})

function waitingRunOf({ system }: Pick<HostContext, 'system'>, runId: string): Run | undefined {
  const run = system.peek(RUN, runId)?.context
  return run !== undefined && isWaiting(run) ? run.run : undefined
}

/** Another worker may have begun an interrupted run anew. */
function discardUselessSandbox(
  { system }: Pick<HostContext, 'system'>,
  workers: WorkersView,
  { key, before, after }: StateChange<RunContext>,
): void {
  if (before?.value !== 'queued' || after.value !== 'preparing') return
  const { run } = after.context
  const workerId = uselessHolder(before.context, run.sandbox.workerId)
  if (workerId !== undefined) requestDiscard(system, workers, { workerId, runId: key })
}

export interface PullStates
  extends Pick<PullStatePoller, 'pollRun' | 'pollPull'>,
    Pick<PullConfirmer, 'confirm'> {}

/** The pull requests of runs: what the code host confirms, and their state. */
export const pullStatesModule = defineHostModule({
  name: 'pullStates',
  create(context, { runRecords, runs, jobs, leases, workers, troubles }) {
    const { runPulls } = jobs
    const confirmer = new PullConfirmer(context, { runRecords, runs, jobs, leases, workers })
    const poller = new PullStatePoller({
      ...context,
      runs: context.store.database.runs,
      latestRun: (id) => runs.latest(id),
      placeOf: (run, codeHost) => runPulls.confirmedAt(run, codeHost),
      onUnconfirmed: (runId) => confirmer.consider(runId),
      onPullState: (runId, url, state) => runs.onPullState(runId, url, state),
      onPolled(remote, refusal) {
        noteRead(context, troubles, { kind: 'pulls', subject: remote, remote }, refusal)
      },
      onRound(remotes) {
        const ended = [...troubles.of('pulls').keys()].filter((remote) => !remotes.has(remote))
        for (const remote of ended) troubles.end('pulls', remote)
        if (ended.length > 0) context.publish({ view: 'trouble' })
      },
    })
    return {
      view: {
        pollRun: (run: Run) => poller.pollRun(run),
        pollPull: (place: PullReference) => poller.pollPull(place),
        confirm: (runId: string) => confirmer.confirm(runId),
      },
      onStateChange: [
        observeKind(RUN, ({ key, after, over }) => {
          const { run, job } = after.context
          confirmer.consider(key)
          if (over && job === 'follow-up') poller.pollRun(run)
        }),
      ],
      onViewChange(change) {
        const run = change.view === 'pull state hint' ? runs.latest(change.key) : undefined
        if (run !== undefined) poller.pollRun(run)
      },
      onConfigChange: () => confirmer.onCodeHostChanged(),
      start() {
        poller.start()
        confirmer.start()
      },
      stop() {
        poller.stop()
        confirmer.stop()
      },
      sizes: () => ({ unconfirmedPulls: confirmer.size }),
    }
  },
})

/** A rate limit is over soon, and no trouble of the repository. */
function noteRead(
  { instant, publish }: Pick<HostContext, 'instant' | 'publish'>,
  troubles: KnownTroubles,
  { kind, subject, remote }: { kind: 'pulls' | 'follow-up'; subject: string; remote: string },
  refusal: Refusal | undefined,
): void {
  // A code host that does not know a pull request has answered.
  const isAnswered = refusal === undefined || refusal.kind === 'unknown'
  if (!isAnswered && refusal.retryAfterMs !== undefined) return
  const isChanged = isAnswered
    ? troubles.end(kind, subject)
    : troubles.begin(kind, subject, {
        since: instant(),
        reason: withCure(remoteSubject(remote), refusal.message),
      })
  if (isChanged) publish({ view: 'trouble' })
}
