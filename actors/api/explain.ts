/**
 * API calls that explain what a ticket or a run waits for. `core/explain/` judges the gates; here their facts are
 * gathered from the views that decide.
 */

import { explainGates } from '../../core/explain/explain-gates.ts'
import type { ExplainedRun, ExplainedWorker, ExplainFacts } from '../../core/explain/facts.ts'
import { missingRunReason } from '../../core/explain/missing-run-reason.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { jobNeeds } from '../../core/run/job-needs.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import { truncate } from '../../core/safe-text.ts'
import { blockersOf, waitingCycle } from '../../core/tickets/blockers.ts'
import { judgeRepo } from '../../core/tickets/repo.ts'
import type { ExplainResponse } from '../../protocol/explain.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { inWallTime, isAvailable } from '../workers/worker-availability.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import type { HostApi } from './host-api.ts'
import { durableRun, unknownRun } from './runs.ts'

type ExplainApi = Pick<HostApi, 'explainTicket' | 'explainRun'>

export function createExplainApi(api: ApiDependencies): ExplainApi {
  return {
    explainTicket: (asked) => explainTicket(api, asked),
    explainRun(id) {
      const run = durableRun(api, id)
      return run === undefined ? unknownRun(id) : yes(explainRun(api, run))
    },
  }
}

function explainTicket(api: ApiDependencies, asked: string): Result<ExplainResponse> {
  const { tracker, runs } = api.views
  const listed = tracker.intake.find(asked)
  const newest = newestRun(api, listed?.id ?? asked)
  const ticket = listed ?? newest?.ticket
  const unread = ticket === undefined ? problemOf(asked, tracker.status().error) : undefined
  if (unread !== undefined) return no('conflict', unread)
  if (ticket === undefined)
    return no('unknown', `no ticket ${printable(asked)} among those that the tracker shows, and no run of it`)
  const active = runs.activeRunOf(ticket.id)
  const run = active === undefined ? newest : (durableRun(api, active) ?? newest)
  if (run !== undefined && !isTerminal(run.status)) return yes(explainRun(api, run))
  const facts = factsOfTicket(api, ticket, run)
  const gates = explainGates(facts)
  if (run !== undefined) return yes({ ticket, run, gates })
  const reason = missingRunReason(facts, gates)
  return yes({
    ticket,
    ...(reason === undefined ? {} : { reason: truncate(reason, TEXT_CHARS_MAX) }),
    gates,
  })
}

/** The tracker's words about the file of a ticket that it can't read. A file is named after its ticket. */
const problemOf = (asked: string, problems = ''): string | undefined =>
  problems.split('; ').find((problem) => problem.toLowerCase().startsWith(`${asked.toLowerCase()}.`))

/** A run that is not queued waits for nothing; an ended one is explained by its error. */
function explainRun(api: ApiDependencies, run: Run): ExplainResponse {
  const { scheduler, tracker } = api.views
  return {
    ticket: tracker.intake.currentTicket(run.ticket),
    run: scheduler.shownRun(run),
    gates: run.status === 'queued' ? explainGates(factsOfRun(api, run)) : [],
  }
}

function newestRun({ context }: ApiDependencies, ticket: string): Run | undefined {
  return context.store.database.runs.list({ ticket, limit: 1 })[0]
}

// ---- facts -------------------------------------------------------------------------------------------------------

function factsOfRun(api: ApiDependencies, run: Run): ExplainFacts {
  const { runs, scheduler, jobs } = api.views
  const isFollowUp = jobs.preparation.isFollowUp(run.id)
  const repo = isFollowUp ? jobs.preparation.repoOf(run) : undefined
  const activeRun = runs.activeRunOf(run.ticket.id)
  const competing = activeRun === undefined || activeRun === run.id ? undefined : durableRun(api, activeRun)
  return {
    ...commonFacts(api, run.ticket),
    ...(repo === undefined
      ? {}
      : {
          repo: repo.ok
            ? { is: 'chosen', choice: repo.value }
            : { is: 'refused', reason: repo.refusal.message },
        }),
    run: { ...queuedRun(api, run), isFollowUp, publishes: jobs.preparation.publishes(run) },
    ...otherRun(competing),
    request: scheduler.placementRequest(run),
  }
}

function queuedRun({ views }: ApiDependencies, run: Run): Omit<ExplainedRun, 'isFollowUp' | 'publishes'> {
  const { scheduler, workers } = views
  const waitsFor = scheduler.reasonFor(run)
  const ahead = scheduler.queue.countBefore(run.id)
  const lease = workers.registry.leaseOf(run.id)
  const sentTo =
    lease === undefined ? undefined : (workers.registry.get(lease.workerId)?.name ?? lease.workerId)
  return {
    ...(waitsFor === undefined ? {} : { waitsFor }),
    ...(ahead === undefined ? {} : { ahead }),
    ...(sentTo === undefined ? {} : { sentTo }),
  }
}

/** The facts about the next run of a ticket that has no active one. */
function factsOfTicket(api: ApiDependencies, ticket: Ticket, ended: Run | undefined): ExplainFacts {
  const { runs, tracker } = api.views
  const facts = commonFacts(api, ticket)
  const queueLimit = runs.checkQueueLimit()
  const needs = facts.repo.is === 'chosen' ? jobNeeds({}, facts.repo.choice.mapping, facts.config) : undefined
  return {
    ...facts,
    ...(queueLimit.ok ? {} : { serviceProblem: queueLimit.refusal.message }),
    ...otherRun(tracker.intake.isDue(ticket) ? undefined : ended),
    request: { runId: '', ...(needs === undefined ? {} : { needs }) },
  }
}

function otherRun(run: Run | undefined): Pick<ExplainFacts, 'otherRun'> {
  return run === undefined
    ? {}
    : { otherRun: { id: run.id, status: run.status, isMerged: run.prState === 'merged' } }
}

function commonFacts(api: ApiDependencies, known: Ticket): Omit<ExplainFacts, 'request'> {
  const { context, views } = api
  const { intake, status } = views.tracker
  const listed = intake.listed()
  const ticket = intake.currentTicket(known)
  const tracked = listed.get(ticket.id)
  const problem = serviceProblem(api)
  return {
    now: context.clock.now(),
    config: context.config(),
    tracker: status(),
    ticket,
    ...(tracked === undefined ? {} : { tracked }),
    // The repository is chosen by the copy in the run: a run with a pull request does not follow its ticket.
    repo: judgeRepo(known, context.config().repos),
    blockers: blockersOf(ticket, listed).map((blocker) => ({ ticket: blocker, ...statusOf(api, blocker) })),
    cycle: waitingCycle(ticket, listed),
    startable: startableRuns(api),
    ...(problem === undefined ? {} : { serviceProblem: problem }),
    workers: explainedWorkers(api),
  }
}

function statusOf(api: ApiDependencies, ticket: Ticket): { status?: Run['status'] } {
  const active = api.views.runs.activeRunOf(ticket.id)
  const run = active === undefined ? newestRun(api, ticket.id) : durableRun(api, active)
  return run === undefined ? {} : { status: run.status }
}

function serviceProblem({ context }: ApiDependencies): string | undefined {
  const state = context.store.database.state()
  if (state.is !== 'ready') return `the disk takes no writes: ${state.reason}`
  return context.isServing() ? undefined : 'the service is starting or stopping'
}

function startableRuns({ context, views }: ApiDependencies): number {
  const now = context.timers.now()
  let freeSlots = 0
  for (const worker of views.workers.registry.all())
    if (isAvailable(worker, now)) freeSlots += worker.max - worker.used
  return Math.min(freeSlots, views.scheduler.queue.readyCount)
}

function explainedWorkers({ context, views }: ApiDependencies): ExplainedWorker[] {
  const offsetMs = context.clock.now() - context.timers.now()
  return [...views.workers.registry.all()].map((worker) => {
    const provider = worker.context.capabilities?.provider
    const facts = inWallTime(worker, offsetMs)
    return provider === undefined ? facts : { ...facts, provider }
  })
}
