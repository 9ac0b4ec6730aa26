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
import type { Rooms } from '../root/modules.ts'
import type { RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { FrontDesk } from './host-api.ts'
import { asTold } from './pull-requests.ts'

export interface FollowUpDeskParts {
  readonly system: ActorSystem
  readonly rooms: Rooms
  /** Refused while nothing may be changed. */
  readonly mayChange: () => Result<void>
  /** Everything up to now is on disk. */
  readonly landed: () => Promise<Result<void>>
  /** Refused while no code host is connected. */
  readonly pulls: () => Result<PullRequestApi>
  readonly database: ControlDatabase
}

type FollowUpPart = Pick<FrontDesk, 'followUpRun'>

export function followUpDesk({
  system,
  rooms,
  mayChange,
  landed,
  pulls,
  database,
}: FollowUpDeskParts): FollowUpPart {
  const { terminals, callings, followUps, runs } = rooms

  const may = (id: string, starting: boolean): Result<{ run: Run; place: PullReference }> => {
    const open = mayChange()
    if (!open.ok) return open
    const run = runs.latest(id)
    if (run === undefined) return no('unknown', `there is no run ${id}`)
    const active = runs.activeRunOf(run.ticket.id)
    const place = mayFollowUp(run, {
      pull: asTold(callings.pullPlaceOf(run)),
      competingRun: active === id ? undefined : active,
      starting,
      booted: terminals.isBooted(id),
    })
    return place.ok ? yes({ run, place: place.value }) : place
  }

  const stateOf = async ({ remote, number }: PullReference): Promise<Result<PullState | undefined>> => {
    const asked = pulls()
    const states = asked.ok ? await asked.value.states(remote, [number], 'person') : asked
    if (states.ok) return yes(states.value.get(number))
    return no('invalid', states.refusal.message)
  }

  const queue = (run: Run): Result<void> => {
    const room = runs.checkQueueLimit()
    if (!room.ok) return room
    const input: RunInput = {
      run: queueFollowUp(run, rooms.instant()),
      job: 'follow-up',
      woken: run.status,
      earlier: earlierOf(run),
      attempts: attemptsOf(run.costs),
      followUp: { id: rooms.newFollowUpId(), number: nextFollowUpNumber(run.costs) },
    }
    const born = system.spawn(RUN, run.id, input)
    return born.ok ? yes(undefined) : born
  }

  const start = async (id: string, before: { run: Run; place: PullReference }): Promise<Result<void>> => {
    const state = await stateOf(before.place)
    if (!state.ok) return state
    const url = before.run.prUrl
    if (url !== undefined && state.value !== undefined) runs.onPullState(id, url, state.value)
    const still = may(id, false)
    if (!still.ok) return still
    const follow = mayFollowPull(still.value.run, state.value)
    return follow.ok ? queue(still.value.run) : follow
  }

  return {
    async followUpRun(id) {
      const first = may(id, followUps.isStarting(id))
      if (!first.ok) return first
      const started = await followUps.whileStarting(id, () => start(id, first.value))
      const done = started.ok ? await landed() : started
      if (!done.ok) return done
      const run = database.runs.get(id)
      return run === undefined ? no('unknown', `there is no run ${id}`) : yes(runs.withWaitReason(run))
    },
  }
}

const earlierOf = ({ result, startedAt, finishedAt }: Run): RunInput['earlier'] => ({
  result: result ?? null,
  startedAt: startedAt ?? null,
  finishedAt: finishedAt ?? null,
})
