/**
 * API calls about tickets and runs. Each decides on the newest state and answers with what is on disk.
 */
import { readOr } from '../../core/damage.ts'
import type { RunQuery } from '../../core/ports/store.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { attemptsOf } from '../../core/run/cost.ts'
import { approveEdit, unreadEdit } from '../../core/run/edited-ticket.ts'
import { type EventPageQuery, planEventPage } from '../../core/run/event-page.ts'
import { mayDiscard, mayRetry, mayRunTicket } from '../../core/run/permission.ts'
import { afterDiscard, mayPublishAgain, type PublishWord, publishAgain } from '../../core/run/publishing.ts'
import { applyRunOptions, checkRunOptions } from '../../core/run/run-options.ts'
import { isTerminal, queueRetry } from '../../core/run/run-transitions.ts'
import type { RunPullResponse } from '../../protocol/pulls.ts'
import type { PublishOptions, Run, RunOptions } from '../../protocol/run.ts'
import type { RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import { requestDiscard } from '../runs/undelivered-discards.ts'
import type { ApiDependencies } from './create-host-api.ts'
import type { ArtifactFile, HostApi, RunEventPage, RunPage } from './host-api.ts'
import { toApiResult } from './pull-requests.ts'

type RunsApi = Pick<
  HostApi,
  | 'tickets'
  | 'activeTicketRun'
  | 'ticketRun'
  | 'runTicket'
  | 'runs'
  | 'run'
  | 'listedRun'
  | 'runEvents'
  | 'nextEventIndex'
  | 'artifact'
  | 'cancelRun'
  | 'retryRun'
  | 'publishRun'
  | 'discardRun'
  | 'placement'
  | 'runPull'
>

export function createRunsApi(api: ApiDependencies): RunsApi {
  const { views } = api
  return {
    tickets: () => views.tracker.intake.shownTickets(),
    activeTicketRun: (ticketId) => activeRunOf(api, ticketId),
    ticketRun: (ticketId) => activeRunOf(api, ticketId) ?? newestRunOf(api, ticketId),
    runTicket: (ticket, options) => runTicket(api, ticket, options),
    runs: (query) => yes(listRuns(api, query)),
    run: (id) => openRun(api, id),
    listedRun: (id) => showRun(api, id),
    runPull: (id) => readPullState(api, id),
    runEvents: (id, query) => readEvents(api, id, query),
    nextEventIndex: (id) =>
      readOr(
        () => (durableRun(api, id) === undefined ? 0 : api.context.store.events.nextIndex(id)),
        () => 0,
      ),
    artifact: (id, name) => findArtifact(api, id, name),
    cancelRun: (id) => cancelRun(api, id),
    retryRun: (id, options) => retryRun(api, id, options),
    publishRun: (id, request) => publishRun(api, id, request),
    discardRun: (id) => discardRun(api, id),
    placement(id) {
      const run = durableRun(api, id)
      return run === undefined ? unknownRun(id) : yes(views.scheduler.placement(run))
    },
  }
}

// ---- reading -----------------------------------------------------------------------------------------------------

export function durableRun({ context }: ApiDependencies, id: string): Run | undefined {
  const actor = context.system.peekDurable(RUN, id)?.context
  return actor?.run ?? context.store.database.runs.get(id)
}

export const unknownRun = (id: string) => no('unknown', `there is no run ${id}`)

function showRun(api: ApiDependencies, id: string): Result<Run> {
  const run = durableRun(api, id)
  return run === undefined ? unknownRun(id) : yes(api.views.scheduler.shownRun(run))
}

function activeRunOf(api: ApiDependencies, ticketId: string): Run | undefined {
  const id = api.views.runs.activeRunOf(ticketId)
  if (id === undefined) return undefined
  const run = readOr(
    () => durableRun(api, id),
    () => undefined,
  )
  return run === undefined ? undefined : api.views.scheduler.shownRun(run)
}

function newestRunOf({ context, views }: ApiDependencies, ticketId: string): Run | undefined {
  const [run] = context.store.database.runs.list({ ticket: ticketId, limit: 1 })
  return run === undefined ? undefined : views.scheduler.shownRun(run)
}

async function showCommittedRun(api: ApiDependencies, id: string): Promise<Result<Run>> {
  const committed = await api.whenCommitted()
  return committed.ok ? showRun(api, id) : committed
}

function listRuns({ context, views }: ApiDependencies, query: RunQuery): RunPage {
  // Read one run more than requested, to know whether more follow.
  const limit = query.limit === undefined ? {} : { limit: query.limit + 1 }
  const found = context.store.database.runs.list({ ...query, ...limit })
  const more = query.limit !== undefined && found.length > query.limit
  if (more) found.pop()
  return { runs: found.map((run) => views.scheduler.shownRun(run)), more }
}

/** Opening a run also polls the state of its pull request; a change is pushed like any other. */
function openRun(api: ApiDependencies, id: string): Result<Run> {
  const run = showRun(api, id)
  if (run.ok) api.views.pullStates.pollRun(run.value)
  return run
}

function readEvents(api: ApiDependencies, id: string, query: EventPageQuery): Result<RunEventPage> {
  if (durableRun(api, id) === undefined) return unknownRun(id)
  const { events } = api.context.store
  const planned = planEventPage(query, events.nextIndex(id))
  if (!planned.ok) return planned
  const { read, ...neighbors } = planned.value
  return yes({ events: events.read(id, read), ...neighbors })
}

async function findArtifact(api: ApiDependencies, id: string, name: string): Promise<Result<ArtifactFile>> {
  if (durableRun(api, id) === undefined) return unknownRun(id)
  const found = await api.context.store.artifacts.find(id, name)
  if (found.is === 'file') return yes(found)
  if (found.is === 'escape') return no('invalid', `${name} is no name of an artifact: ${found.reason}`)
  return no('unknown', `the run has no artifact ${name}`)
}

async function readPullState(api: ApiDependencies, id: string): Promise<Result<RunPullResponse>> {
  const run = durableRun(api, id)
  if (run === undefined) return unknownRun(id)
  const url = run.prUrl
  if (url === undefined) return no('unknown', `${id} has no pull request`)
  const codeHost = api.context.pullRequestApi()
  if (!codeHost.ok) return toApiResult(codeHost)
  const pull = api.views.jobs.runPulls.confirmedAt(run, codeHost.value)
  if (!pull.ok) return pull.refusal.kind === 'conflict' ? asOpened(run, url) : toApiResult(pull)
  const { remote, number } = pull.value
  const states = await codeHost.value.states(remote, [number], 'person')
  if (!states.ok) return toApiResult(states)
  const state = states.value.get(number)
  if (state === undefined)
    return no('unknown', `the code host does not know the pull request of ${id} any more`)
  api.views.runs.onPullState(id, url, state)
  return yes({ url, number, state })
}

/** Until the code host has confirmed the pull request, what its worker saw when it opened it is all that is known. */
function asOpened({ id, pull, prState }: Run, url: string): Result<RunPullResponse> {
  if (pull === undefined) return no('unknown', `${id} has no pull request`)
  return yes({ url, number: pull.number, state: prState ?? pull.openedAs ?? 'open' })
}

// ---- changing ----------------------------------------------------------------------------------------------------

async function runTicket(
  api: ApiDependencies,
  asked: string,
  options: RunOptions = {},
): Promise<Result<Run>> {
  const { runs, tracker } = api.views
  const may = mayStart(api, options)
  if (!may.ok) return may
  const ticket = tracker.intake.find(asked)
  const activeRun = ticket === undefined ? undefined : runs.activeRunOf(ticket.id)
  if (activeRun !== undefined && approveWaitingEdit(api, activeRun, options))
    return showCommittedRun(api, activeRun)
  const allowed = mayRunTicket(asked, { ticket, activeRun })
  if (!allowed.ok) return allowed
  const queued = runs.createRun(allowed.value, options, true)
  return queued.ok ? showCommittedRun(api, queued.value) : queued
}

/** A person starts a run that waits because its ticket was edited. Returns false for every other run. */
function approveWaitingEdit({ views }: ApiDependencies, id: string, options: RunOptions): boolean {
  const run = views.jobs.waitingRun(id)
  if (run === undefined || unreadEdit(run) === undefined) return false
  views.runs.send(id, { type: 'options changed', options })
  views.runs.send(id, { type: 'edit approved' })
  return true
}

/** While nothing may be changed, this is the answer, whatever else is wrong. */
export function mayStart({ mayChange }: ApiDependencies, options: RunOptions): Result<void> {
  const may = mayChange()
  return may.ok ? checkRunOptions(options) : may
}

/** The newest state of a run that may be changed now. */
function runToChange({ mayChange, views }: ApiDependencies, id: string): Result<Run> {
  const may = mayChange()
  if (!may.ok) return may
  const run = views.runs.latest(id)
  return run === undefined ? unknownRun(id) : yes(run)
}

async function cancelRun(api: ApiDependencies, id: string): Promise<Result<Run>> {
  const run = runToChange(api, id)
  if (!run.ok) return run
  const at = api.context.instant()
  api.views.runs.cancel(id, { type: 'cancel requested', at, reason: 'cancelled by a person' })
  return showCommittedRun(api, id)
}

async function retryRun(api: ApiDependencies, id: string, options: RunOptions = {}): Promise<Result<Run>> {
  const may = mayStart(api, options)
  if (!may.ok) return may
  const found = runToChange(api, id)
  if (!found.ok) return found
  if (retryPublishing(api, found.value, options)) return showCommittedRun(api, id)
  // A run may wait for both.
  const isApproved = approveWaitingEdit(api, id, options)
  if (releaseSetback(api, found.value, options) || isApproved) return showCommittedRun(api, id)
  return startRetry(api, id, options)
}

/** The work of an ended run is published, like that of a queued one. */
async function publishRun(
  api: ApiDependencies,
  id: string,
  asked: PublishOptions = {},
): Promise<Result<Run>> {
  const found = runToChange(api, id)
  if (!found.ok) return found
  // The word is about keys that the record names: of others nobody knows yet.
  const request = found.value.foundKeys === undefined ? {} : wordAbout(found.value, asked)
  if (retryPublishing(api, found.value, {}, request)) return showCommittedRun(api, id)
  if (!isTerminal(found.value.status))
    return no(
      'conflict',
      `${id} is ${found.value.status}; its work can be published when it waits for that, or has ended`,
    )
  if (!holdsWork(api, found.value, {}))
    return no('conflict', `no finished work of ${id} waits in a sandbox; retry the run, or see its artifacts`)
  return startRetry(api, id, {}, request)
}

/** The word is for the keys that the record names now. */
function wordAbout({ foundKeysDigest }: Run, { anyway }: PublishOptions): PublishWord {
  if (anyway === undefined) return {}
  return foundKeysDigest === undefined ? { anyway } : { anyway, shownKeys: foundKeysDigest }
}

function holdsWork({ views }: ApiDependencies, run: Run, options: RunOptions): boolean {
  return mayPublishAgain(run, options, {
    now: views.trustedClock.now(),
    holder: views.workers.registry.get(run.sandbox.workerId ?? ''),
  })
}

/** `request`: only finished work may be published, and no agent is asked. */
async function startRetry(
  api: ApiDependencies,
  id: string,
  options: RunOptions,
  request?: PublishWord,
): Promise<Result<Run>> {
  const { context, views } = api
  const before = checkRetry(api, id)
  if (!before.ok) return before
  // The recorded state may be minutes old. A code host that does not answer does not prevent the retry.
  if (before.value.prUrl !== undefined) await readPullState(api, id)
  const run = checkRetry(api, id)
  if (!run.ok) return run
  const withinLimit = views.runs.checkQueueLimit()
  if (!withinLimit.ok) return withinLimit
  const publishes = holdsWork(api, run.value, options)
  if (request !== undefined && !publishes) return no('conflict', `the work of ${id} has gone meanwhile`)
  const now = context.instant()
  const retried = approveEdit(
    queueRetry(run.value, now),
    views.tracker.intake.currentTicket(run.value.ticket),
  )
  const queued = applyRunOptions(retried, options)
  const kind = { job: 'run', woken: run.value.status, earlier: null } as const
  const attempts = attemptsOf(run.value.costs)
  const input: RunInput = publishes
    ? { ...kind, attempts, ...publishAgain(queued, run.value, now) }
    : { ...kind, attempts, run: queued }
  const spawned = context.system.spawn(RUN, id, input)
  if (!spawned.ok) return spawned
  if (publishes) views.runs.send(id, { type: 'publish now', ...request })
  return showCommittedRun(api, id)
}

/** The work of a queued run is published now, or an agent is asked again with a person's words. */
function retryPublishing(
  { views }: ApiDependencies,
  run: Run,
  options: RunOptions,
  request: PublishWord = {},
): boolean {
  const waiting = views.jobs.waitingRun(run.id)
  if (waiting === undefined || !views.jobs.preparation.publishes(waiting)) return false
  views.runs.send(run.id, { type: 'options changed', options })
  views.runs.send(run.id, { type: 'publish now', ...request })
  return true
}

function checkRetry(api: ApiDependencies, id: string): Result<Run> {
  const { runs, terminals, scheduler } = api.views
  const run = runToChange(api, id)
  if (!run.ok) return run
  const activeRun = runs.activeRunOf(run.value.ticket.id)
  const facts = {
    competingRun: activeRun === id ? undefined : activeRun,
    booted: terminals.sessions.isBooted(id),
    waitReason: scheduler.reasonFor(run.value)?.reason,
  }
  const may = mayRetry(run.value, facts)
  return may.ok ? run : may
}

/** A retry of a run that a worker gave back is one more try, whatever has changed. */
function releaseSetback({ views }: ApiDependencies, run: Run, options: RunOptions): boolean {
  const needs = views.jobs.waitingRun(run.id) === undefined ? undefined : views.jobs.preparation.needsOf(run)
  if (needs === undefined || !views.workers.setbacks.release(run.id, needs)) return false
  views.runs.send(run.id, { type: 'options changed', options })
  return true
}

async function discardRun(api: ApiDependencies, id: string): Promise<Result<Run>> {
  const { context, views } = api
  const run = runToChange(api, id)
  if (!run.ok) return run
  const may = mayDiscard(run.value, { booted: views.terminals.sessions.isBooted(id) })
  if (!may.ok) return may
  const { workerId } = run.value.sandbox
  views.runRecords.finishedRuns.update(afterDiscard(run.value, context.instant()))
  if (workerId !== undefined) requestDiscard(context.system, views.workers, { workerId, runId: id })
  return showCommittedRun(api, id)
}
