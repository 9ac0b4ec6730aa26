/**
 * The front desk's part about having a pull request followed up.
 *
 * Whether a run may be is asked twice: before its code host is asked how the pull request is doing, and again with the
 * answer, because anything may have happened meanwhile.
 */

import type { ControlDatabase } from '../../core/ports.ts'
import type { PullReference, PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { attemptsOf } from '../../core/run/cost.ts'
import { nextFollowUpNumber } from '../../core/run/follow-up.ts'
import { mayFollowPull, mayFollowUp } from '../../core/run/permission.ts'
import { queueFollowUp } from '../../core/run/run-transitions.ts'
import type { PullState, Run } from '../../protocol/run.ts'
import type { HostModules } from '../root/modules.ts'
import type { RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { HostApi } from './host-api.ts'
import { toApiRefusal } from './pull-requests.ts'

export interface FollowUpApiPorts {
  readonly system: ActorSystem
  readonly modules: HostModules
  /** Refused while nothing may be changed. */
  readonly mayChange: () => Result<void>
  /** Everything up to now is on disk. */
  readonly waitForCommit: () => Promise<Result<void>>
  /** Refused while no code host is connected. */
  readonly codeHost: () => Result<PullRequestApi>
  readonly database: ControlDatabase
}

type FollowUpApi = Pick<HostApi, 'followUpRun'>

export function createFollowUpApi({
  system,
  modules,
  mayChange,
  waitForCommit,
  codeHost,
  database,
}: FollowUpApiPorts): FollowUpApi {
  const { terminals, callings, followUps, runs } = modules

  const checkPermission = (id: string, starting: boolean): Result<{ run: Run; place: PullReference }> => {
    const open = mayChange()
    if (!open.ok) return open
    const run = runs.latest(id)
    if (run === undefined) return no('unknown', `there is no run ${id}`)
    const active = runs.activeRunOf(run.ticket.id)
    const place = mayFollowUp(run, {
      pull: toApiRefusal(callings.pullPlaceOf(run)),
      competingRun: active === id ? undefined : active,
      starting,
      booted: terminals.isBooted(id),
    })
    return place.ok ? yes({ run, place: place.value }) : place
  }

  const askPullState = async ({ remote, number }: PullReference): Promise<Result<PullState | undefined>> => {
    const asked = codeHost()
    const states = asked.ok ? await asked.value.states(remote, [number], 'person') : asked
    if (states.ok) return yes(states.value.get(number))
    return no('invalid', states.refusal.message)
  }

  const queueFollowUpRun = (run: Run): Result<void> => {
    const room = runs.checkQueueLimit()
    if (!room.ok) return room
    const input: RunInput = {
      run: queueFollowUp(run, modules.instant()),
      job: 'follow-up',
      woken: run.status,
      earlier: earlierOutcome(run),
      attempts: attemptsOf(run.costs),
      followUp: { id: modules.newFollowUpId(), number: nextFollowUpNumber(run.costs) },
    }
    const born = system.spawn(RUN, run.id, input)
    return born.ok ? yes(undefined) : born
  }

  const startFollowUp = async (
    id: string,
    before: { run: Run; place: PullReference },
  ): Promise<Result<void>> => {
    const state = await askPullState(before.place)
    if (!state.ok) return state
    const url = before.run.prUrl
    if (url !== undefined && state.value !== undefined) runs.onPullState(id, url, state.value)
    const still = checkPermission(id, false)
    if (!still.ok) return still
    const follow = mayFollowPull(still.value.run, state.value)
    return follow.ok ? queueFollowUpRun(still.value.run) : follow
  }

  return {
    async followUpRun(id) {
      const first = checkPermission(id, followUps.isStarting(id))
      if (!first.ok) return first
      const started = await followUps.whileStarting(id, () => startFollowUp(id, first.value))
      const done = started.ok ? await waitForCommit() : started
      if (!done.ok) return done
      const run = database.runs.get(id)
      return run === undefined ? no('unknown', `there is no run ${id}`) : yes(runs.withWaitReason(run))
    },
  }
}

const earlierOutcome = ({ result, startedAt, finishedAt }: Run): RunInput['earlier'] => ({
  result: result ?? null,
  startedAt: startedAt ?? null,
  finishedAt: finishedAt ?? null,
})
