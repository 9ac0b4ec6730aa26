/**
 * API calls about tickets: creating a ticket in the tracker and starting it, and explaining what a ticket or a run
 * waits for.
 *
 * The tracker creates a new ticket in its eligible place at once. So a host that stops before the run is on disk loses
 * nothing: the next poll queues the run. A ticket has one active run, however many polls see it meanwhile.
 */
import { explainGates, missingRunReason } from '../../core/explain/explain-gates.ts'
import type {
  ExplainedBlocker,
  ExplainedRun,
  ExplainedWorker,
  ExplainFacts,
  SentTo,
} from '../../core/explain/facts.ts'
import type { NewTicket, Tracker } from '../../core/ports/tracker.ts'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import { jobNeeds } from '../../core/run/job-needs.ts'
import { showPullCommand } from '../../core/run/name-in-commands.ts'
import { isTerminal } from '../../core/run/run-transitions.ts'
import { truncate } from '../../core/safe-text.ts'
import { blockersOf, waitingCycle } from '../../core/tickets/blockers.ts'
import { formatNames } from '../../core/tickets/names.ts'
import { judgeRepo } from '../../core/tickets/repo.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ExplainResponse } from '../../protocol/explain.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { NewTicketRequest, NewTicketResponse } from '../../protocol/new-ticket.ts'
import type { Run, Ticket } from '../../protocol/run.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { EnrolledWorker } from '../workers/enrolled-worker.ts'
import { inWallTime, isAvailable } from '../workers/worker-availability.ts'
import type { ApiDependencies } from './create-host-api.ts'
import type { HostApi } from './host-api.ts'
import { durableRun, unknownRun } from './runs.ts'

type TicketsApi = Pick<HostApi, 'createTicket'>

export function createTicketsApi(api: ApiDependencies): TicketsApi {
  return { createTicket: (request) => createTicket(api, request) }
}

async function createTicket(
  api: ApiDependencies,
  request: NewTicketRequest,
): Promise<Result<NewTicketResponse>> {
  const { connection, intake } = api.views.tracker
  const ticket = checkRequest(api, request)
  if (!ticket.ok) return ticket
  const { epoch } = connection
  const created = await connection.ask((tracker) => createIn(tracker, ticket.value))
  if (!created.ok) return toApiRefusal(created)
  // Another tracker was configured meanwhile, and the host knows nothing of this one's tickets any more.
  if (epoch !== connection.epoch) return yes({ ticket: created.value.ticket })
  const runId = intake.adoptTicket(created.value, ticket.value.isEligible)
  const committed = await api.whenCommitted()
  if (!committed.ok) return committed
  const run = runId === undefined ? undefined : api.context.store.database.runs.get(runId)
  return yes({
    ticket: created.value.ticket,
    ...(run === undefined ? {} : { run: api.views.scheduler.shownRun(run) }),
  })
}

/** Everything that can be refused without the tracker. */
function checkRequest(
  { context, views, mayChange }: ApiDependencies,
  { title, description = '', repo, priority = 0, labels = [], start = true }: NewTicketRequest,
): Result<NewTicket> {
  const may = mayChange()
  if (!may.ok) return may
  const config = context.config()
  const mapping = findMapping(repo, config)
  if (!mapping.ok) return mapping
  if (!views.tracker.connection.isConnected) return NOT_CONNECTED
  const space = start ? views.runs.checkQueueLimit() : yes(undefined)
  if (!space.ok) return space
  const words = { title: title.trim(), description, priority, labels: labels.map((label) => label.trim()) }
  const { eligible: rules } = config.tracker
  return yes({ ...words, ...mapping.value, repos: config.repos, rules, isEligible: start })
}

const NOT_CONNECTED = no('conflict', 'no tracker is connected; connect one first')

function findMapping(key: string | undefined, { repos }: ServiceConfig): Result<Pick<NewTicket, 'repo'>> {
  if (key === undefined) return yes({})
  const mapping = Object.hasOwn(repos, key) ? repos[key] : undefined
  if (mapping !== undefined) return yes({ repo: { key, mapping } })
  const keys = Object.keys(repos)
  const cure = keys.length === 0 ? 'add it there first' : `use one of ${formatNames(keys)}`
  return no('invalid', `/repo: ${printable(key)} is not a key under repos; ${cure}`)
}

async function createIn(tracker: Tracker, ticket: NewTicket) {
  return tracker.createTicket === undefined ? CANNOT_CREATE : tracker.createTicket(ticket)
}

const CANNOT_CREATE = no(
  'conflict',
  'this tracker creates no tickets; create the ticket where the others are',
)

/** Only what is wrong with the request itself stays `invalid`. */
function toApiRefusal({ refusal }: Refused): Refused {
  return refusal.kind === 'invalid' ? no('invalid', refusal.message) : no('conflict', refusal.message)
}

// ---- explanations ------------------------------------------------------------------------------------------------

type ExplainApi = Pick<HostApi, 'explainTicket' | 'explainRun'>

/**
 * API calls that explain what a ticket or a run waits for. `core/explain/` judges the gates; here their facts are
 * gathered from the views that decide.
 */
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

// ---- the facts of an explanation ---------------------------------------------------------------------------------

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
  const sentTo = lease === undefined ? undefined : sentToOf(workers.registry.get(lease.workerId), lease)
  return {
    ...(waitsFor === undefined ? {} : { waitsFor }),
    ...(ahead === undefined ? {} : { ahead }),
    ...(sentTo === undefined ? {} : { sentTo }),
  }
}

function sentToOf(worker: EnrolledWorker | undefined, { workerId }: { readonly workerId: string }): SentTo {
  if (worker === undefined) return { id: workerId, name: workerId, online: false }
  const { id, name, online, lastSeenAt } = worker
  return { id, name, online, ...(lastSeenAt === undefined ? {} : { lastSeenAt }) }
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
    blockers: blockersOf(ticket, listed).map((blocker) => explainBlocker(api, blocker)),
    cycle: waitingCycle(ticket, listed),
    startable: startableRuns(api),
    ...(problem === undefined ? {} : { serviceProblem: problem }),
    workers: explainedWorkers(api),
  }
}

function explainBlocker(api: ApiDependencies, ticket: Ticket): ExplainedBlocker {
  const active = api.views.runs.activeRunOf(ticket.id)
  const run = active === undefined ? newestRun(api, ticket.id) : durableRun(api, active)
  if (run === undefined) return { ticket }
  const isReviewed = run.status === 'completed' && run.prState === 'open'
  return { ticket, status: run.status, ...(isReviewed ? { review: showPullCommand(run) } : {}) }
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
    const { lastSeenAt } = worker
    return {
      ...inWallTime(worker, offsetMs),
      ...(provider === undefined ? {} : { provider }),
      ...(lastSeenAt === undefined ? {} : { lastSeenAt }),
    }
  })
}
