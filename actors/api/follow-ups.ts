/**
 * The API call that has a pull request followed up.
 *
 * Permission is checked twice: before the code host is asked for the state of the pull request, and again with its
 * answer, because anything may have changed in between.
 */
import type { PullReference } from '../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { attemptsOf } from '../../core/run/cost.ts'
import { nextFollowUpNumber } from '../../core/run/follow-up.ts'
import { mayFollowPull, mayFollowUp } from '../../core/run/permission.ts'
import { applyRunOptions, hasInstructions } from '../../core/run/run-options.ts'
import { queueFollowUp } from '../../core/run/run-transitions.ts'
import type { PullState, Run, RunOptions } from '../../protocol/run.ts'
import type { RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.machine.ts'
import type { ApiDependencies } from './create-host-api.ts'
import type { HostApi } from './host-api.ts'
import { toApiResult } from './pull-requests.ts'
import { mayStart } from './runs.ts'

type FollowUpsApi = Pick<HostApi, 'followUpRun'>

interface FollowUpTarget {
  readonly run: Run
  readonly pull: PullReference
}

export function createFollowUpsApi(api: ApiDependencies): FollowUpsApi {
  const { followUpReader } = api.views.jobs
  return {
    async followUpRun(id, options = {}) {
      const may = mayStart(api, options)
      if (!may.ok) return may
      await confirmPull(api, id)
      const target = checkFollowUp(api, id, followUpReader.isStarting(id))
      if (!target.ok) return target
      const started = await followUpReader.whileStarting(id, () =>
        startFollowUp(api, id, target.value, options),
      )
      const committed = started.ok ? await api.whenCommitted() : started
      if (!committed.ok) return committed
      const run = api.context.store.database.runs.get(id)
      return run === undefined
        ? no('unknown', `there is no run ${id}`)
        : yes(api.views.scheduler.shownRun(run))
    },
  }
}

/** Right after a completion the code host may not have been asked yet whether the pull request is the run's. */
async function confirmPull({ views }: ApiDependencies, id: string): Promise<void> {
  const run = views.runs.latest(id)
  if (run?.status === 'completed' && run.pull?.confirmed === false) await views.pullStates.confirm(id)
}

function checkFollowUp(api: ApiDependencies, id: string, isStarting: boolean): Result<FollowUpTarget> {
  const { runs, jobs, terminals } = api.views
  const may = api.mayChange()
  if (!may.ok) return may
  const run = runs.latest(id)
  if (run === undefined) return no('unknown', `there is no run ${id}`)
  const activeRun = runs.activeRunOf(run.ticket.id)
  const pull = mayFollowUp(run, {
    pull: toApiResult(jobs.preparation.pullPlaceOf(run)),
    competingRun: activeRun === id ? undefined : activeRun,
    starting: isStarting,
    booted: terminals.sessions.isBooted(id),
  })
  return pull.ok ? yes({ run, pull: pull.value }) : pull
}

async function startFollowUp(
  api: ApiDependencies,
  id: string,
  before: FollowUpTarget,
  options: RunOptions,
): Promise<Result<void>> {
  const state = await readState(api, before.pull)
  if (!state.ok) return state
  const url = before.run.prUrl
  if (url !== undefined && state.value !== undefined) api.views.runs.onPullState(id, url, state.value)
  const target = checkFollowUp(api, id, false)
  if (!target.ok) return target
  const may = mayFollowPull(target.value.run, state.value)
  return may.ok ? spawnFollowUp(api, target.value.run, options) : may
}

async function readState(
  { context }: ApiDependencies,
  { remote, number }: PullReference,
): Promise<Result<PullState | undefined>> {
  const codeHost = context.pullRequestApi()
  const states = codeHost.ok ? await codeHost.value.states(remote, [number], 'person') : codeHost
  if (states.ok) return yes(states.value.get(number))
  return no('invalid', states.refusal.message)
}

function spawnFollowUp({ context, views }: ApiDependencies, run: Run, options: RunOptions): Result<void> {
  const withinLimit = views.runs.checkQueueLimit()
  if (!withinLimit.ok) return withinLimit
  const { result, startedAt, finishedAt } = run
  const input: RunInput = {
    run: applyRunOptions(queueFollowUp(run, context.instant()), options),
    job: 'follow-up',
    woken: run.status,
    earlier: { result: result ?? null, startedAt: startedAt ?? null, finishedAt: finishedAt ?? null },
    attempts: attemptsOf(run.costs),
    followUp: {
      id: context.ids.followUp(),
      number: nextFollowUpNumber(run.costs),
      ...(hasInstructions(options) ? { isInstructed: true } : {}),
    },
  }
  const spawned = context.system.spawn(RUN, run.id, input)
  return spawned.ok ? yes(undefined) : spawned
}
