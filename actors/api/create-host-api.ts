/** Creates the host API: every call reads what is durable, or sends an event to an actor. */

import { isDamagedRecord } from '../../core/damage.ts'
import type { ViewReceiver, ViewSender } from '../../core/ports/connections.ts'
import type { ControlDatabase } from '../../core/ports/store.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { mayResume } from '../../core/run/permission.ts'
import { UNFINISHED } from '../../core/run/run-transitions.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { AttentionResponse } from '../../protocol/attention.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ChangesHello } from '../../protocol/dashboard.ts'
import type { ResumeRunResponse, SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { MemoriesResponse, Run, RunStatus } from '../../protocol/run.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import { renderPage } from '../accounts/callback-page.ts'
import type { HostChange, HostContext } from '../host-context.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleList, ModuleViews } from '../runtime/module.ts'
import { createFollowUpsApi } from './follow-ups.ts'
import type { HostApi } from './host-api.ts'
import { createPullRequestsApi, toApiResult } from './pull-requests.ts'
import { createRunsApi } from './runs.ts'
import { createExplainApi, createTicketsApi } from './tickets.ts'
import { createJoinKeysApi, createWorkersApi } from './workers.ts'

export interface HostApiOptions {
  readonly context: HostContext
  readonly modules: ModuleList<HostChange>
  readonly health: HealthResponse
}

/** The dependencies of every group of API calls. */
export interface ApiDependencies {
  readonly context: HostContext
  readonly views: ModuleViews
  /** Refused while nothing may be changed: the service is stopping, or the disk takes no writes. */
  readonly mayChange: () => Result<void>
  /** Resolves once everything up to now is on disk. */
  readonly whenCommitted: () => Promise<Result<void>>
}

export function createHostApi({ context, modules, health }: HostApiOptions): HostApi {
  const { system, store, broadcast, currentConfig } = context
  const { views } = modules
  const api: ApiDependencies = {
    context,
    views,
    mayChange: () => mayChange(context),
    whenCommitted: () => views.commitWaiters.whenCommitted(),
  }
  async function applyPatch(
    patch: Record<string, unknown>,
    confirm: readonly string[] = [],
  ): Promise<Result<SettingsUpdateResponse>> {
    const may = api.mayChange()
    if (!may.ok) return may
    const reposInUse = () => findReposInUse(store.database.runs, currentConfig.configuration.effective.repos)
    return views.settings.apply({ is: 'patch', patch, confirm, reposInUse })
  }
  let shown: { readonly reasons: readonly string[]; readonly health: HealthResponse } = {
    reasons: [],
    health,
  }
  return attributed(system, {
    ...createRunsApi(api),
    ...createTicketsApi(api),
    ...createExplainApi(api),
    ...createMemoriesApi(api),
    ...createWorkersApi(api),
    ...createJoinKeysApi(api),
    ...createTerminalsApi(api),
    ...createFollowUpsApi(api),
    ...createAccountsApi(api),
    ...createPullRequestsApi(api),
    health: () => {
      const reasons = views.attention.degraded()
      if (reasons !== shown.reasons)
        shown = { reasons, health: reasons.length === 0 ? health : { ...health, degraded: [...reasons] } }
      return shown.health
    },
    config: () => currentConfig.redacted,
    changeSettings: applyPatch,
    async setPaused(paused) {
      const changed = await applyPatch({ policy: { paused } })
      return changed.ok ? yes({ paused: changed.value.config.policy.paused }) : changed
    },
    attention: () => views.attention.list(),
    acknowledgeAttention: (id) => acknowledgeAttention(api, id),
    hello: () => ({
      ...changesHello(api),
      runs: recentRuns(store.database).map((run) => views.scheduler.shownRun(run)),
      tickets: views.tracker.intake.shownTickets(),
    }),
    changesHello: () => changesHello(api),
    onPush: (listener) => broadcast.listen(listener),
    allowedOrigins: () => context.config().server.allowedOrigins,
    inspect: (receiver) => context.inspection.open(receiver),
    isOpen: () => context.isOpen(),
    storeState: () => store.database.state(),
    updateGauges: () => modules.reportGauges(context.meters),
    actorsByKind: () => system.count(),
  })
}

/** People who inspect actors see which call has caused an event. A call that needs something damaged is refused. */
function attributed(system: ActorSystem, hostApi: HostApi): HostApi {
  const calls = Object.entries(hostApi).map(([name, call]: [string, ApiCall]) => [
    name,
    (...args: unknown[]) =>
      refuseDamaged(() =>
        system.isObserved ? system.attribute('request', name, () => call(...args)) : call(...args),
      ),
  ])
  // Each entry takes and answers what the one of this name did.
  return Object.fromEntries(calls) as HostApi
}

/** The calls that answer with a list read nothing damaged, so each call that is refused here may be refused. */
function refuseDamaged(call: () => unknown): unknown {
  const refuse = (error: unknown) => {
    if (isDamagedRecord(error)) return no('failed', error.message)
    throw error
  }
  try {
    const answer = call()
    return answer instanceof Promise ? answer.catch(refuse) : answer
  } catch (error) {
    return refuse(error)
  }
}

type ApiCall = (...args: unknown[]) => unknown

function changesHello({ context, views }: ApiDependencies): ChangesHello {
  context.broadcast.noteRead()
  return {
    type: 'hello',
    config: context.currentConfig.redacted,
    linearStatus: views.tracker.status(),
    workers: views.workers.registry.views(),
  }
}

async function acknowledgeAttention(
  { views, mayChange, whenCommitted }: ApiDependencies,
  id: string,
): Promise<Result<AttentionResponse>> {
  const may = mayChange()
  const known = may.ok ? views.attention.acknowledge(id) : may
  if (!known.ok) return known
  const committed = await whenCommitted()
  return committed.ok ? yes(views.attention.list()) : committed
}

function mayChange({ isOpen, store }: HostContext): Result<void> {
  if (!isOpen()) return no('unavailable', 'the service is stopping')
  const state = store.database.state()
  return state.is === 'ready'
    ? yes(undefined)
    : no('unavailable', `the disk takes no writes: ${state.reason}`)
}

const FINISHED: readonly RunStatus[] = ['completed', 'failed', 'cancelled']
/** A pull request whose state nobody knows yet may be open. */
const mayHaveOpenPull = ({ prUrl, prState }: Run): boolean =>
  prUrl !== undefined && prState !== 'merged' && prState !== 'closed'

/** Changing where these are pushed would redirect work that is under way. */
function findReposInUse(
  runs: Pick<ControlDatabase['runs'], 'list'>,
  repos: ServiceConfig['repos'],
): ReadonlySet<string> {
  const unfinished = runs.list({ status: UNFINISHED })
  const withPull = runs.list({ status: FINISHED }).filter(mayHaveOpenPull)
  return new Set(
    [...unfinished, ...withPull].flatMap(({ ticket }) => {
      const repo = chooseRepo(ticket, repos)
      return repo.ok ? [repo.value.key] : []
    }),
  )
}

const HELLO_FINISHED_RUNS = 200

/** Every unfinished run and the newest finished ones, newest first. */
function recentRuns(database: ControlDatabase): Run[] {
  const unfinished = database.runs.list({ status: UNFINISHED })
  const finished = database.runs.list({ status: FINISHED, limit: HELLO_FINISHED_RUNS })
  return [...unfinished, ...finished].sort((a, b) => (a.id < b.id ? 1 : -1))
}

// ---- accounts ----------------------------------------------------------------------------------------------------

type AccountsApi = Pick<
  HostApi,
  | 'changeCredentials'
  | 'connect'
  | 'pollCodehost'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'storage'
  | 'connectStorage'
  | 'trackerStatus'
  | 'trackerProjects'
>

/**
 * API calls about credentials, connecting accounts and the bucket. While nothing may be changed nothing may be
 * connected either, because the credential could not be saved.
 */
function createAccountsApi({ views, mayChange }: ApiDependencies): AccountsApi {
  const { accounts, tracker } = views
  /** This check comes first, whatever else is wrong. */
  const ifChangeable = async <T>(ask: () => Promise<Result<T>>): Promise<Result<T>> => {
    const may = mayChange()
    return may.ok ? ask() : may
  }
  return {
    changeCredentials: (request) => ifChangeable(() => accounts.changeCredentials(request)),
    connect: (provider) => ifChangeable(() => accounts.connect(provider)),
    async pollCodehost() {
      const may = mayChange()
      return may.ok ? accounts.pollCodehost() : { status: 'pending' }
    },
    async trackerCallback(query) {
      const page = await accounts.handleTrackerCallback(query)
      return { status: page.status, html: renderPage(page) }
    },
    pasteTrackerAddress: (address) => ifChangeable(() => accounts.handlePastedCallback(address)),
    storage: () => accounts.storageStatus(),
    connectStorage: () => ifChangeable(async () => yes(await accounts.connectStorage())),
    trackerStatus: () => tracker.status(),
    async trackerProjects() {
      if (!tracker.connection.isConnected) return no('invalid', 'no tracker is connected; connect one first')
      return toApiResult(await tracker.connection.ask((tracker) => tracker.projects()))
    },
  }
}

// ---- memories ----------------------------------------------------------------------------------------------------

/** How long the disk may take to write a change. */
const CHANGE_MS_MAX = 5_000

type MemoriesApi = Pick<HostApi, 'memories' | 'keepMemory' | 'forgetMemory' | 'clearMemories'>

function createMemoriesApi(api: ApiDependencies): MemoriesApi {
  const { memories } = api.views
  return {
    memories: () => memories.listDurable(),
    keepMemory: (repo, id) => changeMemories(api, () => memories.keep(repo, id)),
    forgetMemory: (repo, id) => changeMemories(api, () => memories.forget(repo, id)),
    clearMemories: (repo) => changeMemories(api, () => memories.clear(repo)),
  }
}

/** The specification answers 500 for a change that the disk does not take, which is `failed`. */
async function changeMemories(
  { context, views, mayChange, whenCommitted }: ApiDependencies,
  change: () => Result<void>,
): Promise<Result<MemoriesResponse>> {
  const { database } = context.store
  const may = mayChange()
  if (!may.ok) return database.state().is === 'ready' ? may : no('failed', may.refusal.message)
  const changed = change()
  if (!changed.ok) return changed
  const committed = await withTimeout(context.clock, CHANGE_MS_MAX, whenCommitted(), 'the disk')
  if (committed.ok) return yes(views.memories.listDurable())
  const state = database.state()
  // The disk had room when the request arrived.
  return state.is === 'ready'
    ? committed
    : no('failed', `${state.reason}; the change is written as soon as the disk accepts it`)
}

// ---- terminals ---------------------------------------------------------------------------------------------------

type TerminalsApi = Pick<HostApi, 'resumeRun' | 'releaseRun' | 'attachView'>

/**
 * API calls about the agent's session of a finished run, continued in a terminal. Opening a terminal asks for the same
 * as resuming, and is refused in the same words.
 */
function createTerminalsApi(api: ApiDependencies): TerminalsApi {
  const { sessions } = api.views.terminals
  return {
    resumeRun: (id) => resumeRun(api, id),
    releaseRun: (id) => releaseRun(api, id),
    attachView: (id: string, view: ViewSender): ViewReceiver =>
      sessions.attach(id, view, () => resumeRun(api, id)),
  }
}

/** Joining or ending a resumed sandbox changes nothing on disk, so a full disk does not prevent it. */
const mayJoin = ({ context }: ApiDependencies): Result<void> =>
  context.isOpen() ? yes(undefined) : no('unavailable', 'the service is stopping')

function latestRun({ views }: ApiDependencies, id: string, may: Result<void>): Result<Run> {
  if (!may.ok) return may
  const run = views.runs.latest(id)
  return run === undefined ? no('unknown', `there is no run ${id}`) : yes(run)
}

const showDurable = ({ context, views }: ApiDependencies, run: Run): Run =>
  views.scheduler.shownRun(context.store.database.runs.get(run.id) ?? run)

async function resumeRun(api: ApiDependencies, id: string): Promise<Result<ResumeRunResponse>> {
  const { context, views } = api
  const { sessions, sessionCosts } = views.terminals
  const booted = sessions.isBooted(id)
  const asked = latestRun(api, id, booted ? mayJoin(api) : api.mayChange())
  if (!asked.ok) return asked
  const run = asked.value
  const { workerId = '' } = run.sandbox
  const worker = views.workers.registry.get(workerId)
  const followUpStarting = views.jobs.followUpReader.isStarting(id)
  const may = mayResume(run, { now: context.clock.now(), followUpStarting, booted, worker })
  if (!may.ok) return may
  if (!booted) sessionCosts.startSession(run, workerId, may.value.sessionId)
  const done = await sessions.boot({ runId: id, workerId })
  if (!done.ok) return done
  const workerName = worker?.name ?? workerId
  return yes({ run: showDurable(api, run), attach: { kind: 'worker', workerId, workerName } })
}

/** Answers for every run: whether its sandbox is booted only the worker knows, for example after a restart of the host. */
async function releaseRun(api: ApiDependencies, id: string): Promise<Result<Run>> {
  const run = latestRun(api, id, mayJoin(api))
  if (!run.ok) return run
  api.views.terminals.sessions.release(id, run.value.sandbox.workerId)
  return yes(showDurable(api, run.value))
}
