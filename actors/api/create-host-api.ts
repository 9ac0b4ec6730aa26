/**
 * Creates the host API: every call reads what is durable, or sends an event to an actor.
 */
import { isDamagedRecord } from '../../core/damage.ts'
import type { ControlDatabase } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { chooseRepo } from '../../core/tickets/repo.ts'
import type { AttentionResponse } from '../../protocol/attention.ts'
import type { ServiceConfig } from '../../protocol/config.ts'
import type { ChangesHello } from '../../protocol/dashboard.ts'
import { HELLO_FINISHED_RUNS } from '../../protocol/limits.ts'
import type { SettingsUpdateResponse } from '../../protocol/routes.ts'
import type { Run, RunStatus } from '../../protocol/run.ts'
import type { HealthResponse } from '../../protocol/worker.ts'
import type { HostContext } from '../host-context.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { ModuleList } from '../runtime/module.ts'
import { createAccountsApi } from './accounts.ts'
import type { ApiDependencies } from './api-dependencies.ts'
import { createExplainApi } from './explain.ts'
import { createFollowUpsApi } from './follow-ups.ts'
import type { HostApi } from './host-api.ts'
import { createJoinKeysApi } from './join-keys.ts'
import { createMemoriesApi } from './memories.ts'
import { createPullRequestsApi } from './pull-requests.ts'
import { createRunsApi } from './runs.ts'
import { createTerminalsApi } from './terminals.ts'
import { createTicketsApi } from './tickets.ts'
import { createWorkersApi } from './workers.ts'

export interface HostApiOptions {
  readonly context: HostContext
  readonly modules: ModuleList
  readonly health: HealthResponse
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

const UNFINISHED: readonly RunStatus[] = ['queued', 'preparing', 'running', 'finalizing']
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

/** Every unfinished run and the newest finished ones, newest first. */
function recentRuns(database: ControlDatabase): Run[] {
  const unfinished = database.runs.list({ status: UNFINISHED })
  const finished = database.runs.list({ status: FINISHED, limit: HELLO_FINISHED_RUNS })
  return [...unfinished, ...finished].sort((a, b) => (a.id < b.id ? 1 : -1))
}
