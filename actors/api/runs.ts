/**
 * The front desk's part about tickets, runs and what they learnt.
 *
 * Decided on the newest word, answered with what is on disk.
 */

import type { Clock, RunQuery, Store } from '../../core/ports.ts'
import type { PullRequestApi } from '../../core/provider-ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { attemptsOf } from '../../core/run/cost.ts'
import { mayDiscard, mayRetry, mayRunTicket } from '../../core/run/permission.ts'
import { isTerminal, markSandboxDiscarded, queueRetry } from '../../core/run/run-transitions.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { RunPullResponse } from '../../protocol/pulls.ts'
import type { Run } from '../../protocol/run.ts'
import type { HostModules } from '../root/modules.ts'
import type { RunContext, RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunEffect } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { HostApi } from './host-api.ts'
import { toApiRefusal } from './pull-requests.ts'

/** What a disk may take to write that something is forgotten. */
const DELETION_MS_MAX = 5_000
const DELETED_LATER = 'what was to be forgotten is forgotten as soon as the disk takes it'

export interface RunApiPorts {
  readonly clock: Pick<Clock, 'after'>
  readonly system: ActorSystem
  readonly store: Store
  readonly modules: HostModules
  /** Refused while nothing may be changed. */
  readonly mayChange: () => Result<void>
  /** Everything up to now is on disk. */
  readonly waitForCommit: () => Promise<Result<void>>
  /** Refused while no code host is connected. */
  readonly codeHost: () => Result<PullRequestApi>
}

type RunApi = Pick<
  HostApi,
  | 'tickets'
  | 'runTicket'
  | 'runs'
  | 'run'
  | 'runEvents'
  | 'artifact'
  | 'cancelRun'
  | 'retryRun'
  | 'discardRun'
  | 'placement'
  | 'runPull'
  | 'memories'
  | 'forgetMemory'
  | 'clearMemories'
>

export function createRunApi({
  clock,
  system,
  store,
  modules,
  mayChange,
  waitForCommit,
  codeHost,
}: RunApiPorts): RunApi {
  const { runs: records } = store.database

  /** What is on disk of it. */
  const durableRun = (id: string): Run | undefined => {
    const alive = system.peekDurable(RUN, id)?.context as RunContext | undefined
    return alive?.run ?? records.get(id)
  }
  const newestRun = (id: string): Run | undefined => {
    const alive = system.peek(RUN, id)?.context as RunContext | undefined
    return alive?.run ?? modules.resting.latest(id)
  }
  const unknownRun = (id: string) => no('unknown', `there is no run ${id}`)
  const durableView = (id: string): Result<Run> => {
    const run = durableRun(id)
    return run === undefined ? unknownRun(id) : yes(modules.runs.withWaitReason(run))
  }
  const viewAfterCommit = async (id: string): Promise<Result<Run>> => {
    const done = await waitForCommit()
    return done.ok ? durableView(id) : done
  }

  async function runTicket(asked: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const ticket = modules.intake.find(asked)
    const activeRun = ticket === undefined ? undefined : modules.runs.activeRunOf(ticket.id)
    const may = mayRunTicket(asked, { ticket, activeRun })
    if (!may.ok) return may
    const queued = modules.runs.createRun(may.value)
    return queued.ok ? viewAfterCommit(queued.value) : queued
  }

  function runs(query: RunQuery) {
    const limit = query.limit === undefined ? {} : { limit: query.limit + 1 }
    const found = records.list({ ...query, ...limit })
    const more = query.limit !== undefined && found.length > query.limit
    if (more) found.pop()
    return yes({ runs: found.map((run) => modules.runs.withWaitReason(run)), more })
  }

  async function cancelRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    if (newestRun(id) === undefined) return unknownRun(id)
    modules.runs.send(id, {
      type: 'cancel requested',
      at: modules.instant(),
      reason: 'cancelled by a person',
    })
    return viewAfterCommit(id)
  }

  async function retryRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const run = newestRun(id)
    if (run === undefined) return unknownRun(id)
    const active = modules.runs.activeRunOf(run.ticket.id)
    const competingRun = active === id ? undefined : active
    const may = mayRetry(run, { competingRun, booted: modules.terminals.isBooted(id) })
    if (!may.ok) return may
    const room = modules.runs.checkQueueLimit()
    if (!room.ok) return room
    const input: RunInput = {
      run: queueRetry(run, modules.instant()),
      job: 'run',
      woken: run.status,
      earlier: null,
      attempts: attemptsOf(run.costs),
    }
    const born = system.spawn(RUN, id, input)
    return born.ok ? viewAfterCommit(id) : born
  }

  async function discardRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const run = newestRun(id)
    if (run === undefined) return unknownRun(id)
    const may = mayDiscard(run, { booted: modules.terminals.isBooted(id) })
    if (!may.ok) return may
    const { workerId } = run.sandbox
    modules.resting.update(markSandboxDiscarded(run, modules.instant()))
    if (workerId !== undefined && modules.workers.get(workerId) !== undefined) {
      modules.undeliveredDiscards.add({ workerId, runId: id })
      const tellWorker: RunEffect = { type: 'run.send discard', workerId, runId: id }
      system.runAfterCommit(tellWorker)
    }
    const answer = await viewAfterCommit(id)
    if (answer.ok && isTerminal(answer.value.status)) modules.runPushes.publish(answer.value)
    return answer
  }

  /** Opening a run also asks after its pull request; whoever opened it hears of a change as everybody does. */
  function openRun(id: string): Result<Run> {
    const run = durableView(id)
    if (run.ok) modules.pullWatch.pollRun(run.value)
    return run
  }

  async function runPull(id: string): Promise<Result<RunPullResponse>> {
    const run = durableRun(id)
    if (run === undefined) return unknownRun(id)
    const url = run.prUrl
    if (url === undefined) return no('unknown', `${id} has no pull request`)
    const host = codeHost()
    if (!host.ok) return toApiRefusal(host)
    const place = host.value.parseUrl(url)
    if (place === undefined)
      return no('invalid', `the pull request of ${id} is not at the code host that is connected now`)
    const states = await host.value.states(place.remote, [place.number], 'person')
    if (!states.ok) return toApiRefusal(states)
    const state = states.value.get(place.number)
    if (state === undefined)
      return no('unknown', `the code host does not know the pull request of ${id} any more`)
    modules.runs.onPullState(id, url, state)
    return yes({ url, number: place.number, state })
  }

  /** A deletion that the disk does not take has failed, as these routes have always called it. */
  async function changeMemory(change: () => Result<void>) {
    const open = mayChange()
    const { is } = store.database.state()
    if (!open.ok) return is === 'ready' ? open : no('failed', open.refusal.message)
    const changed = change()
    if (!changed.ok) return changed
    const done = await withTimeout(clock, DELETION_MS_MAX, waitForCommit(), 'the disk')
    if (done.ok) return yes(modules.memories.listDurable())
    const state = store.database.state()
    // It had room when this was asked for.
    return state.is === 'ready' ? done : no('failed', `${state.reason}; ${DELETED_LATER}`)
  }

  return {
    tickets: () => modules.intake.eligible(),
    runTicket,
    runs,
    run: openRun,
    runPull,
    runEvents: async (id, query) =>
      durableRun(id) === undefined ? unknownRun(id) : yes(await store.events.read(id, query)),
    async artifact(id, name) {
      if (durableRun(id) === undefined) return unknownRun(id)
      const found = await store.artifacts.find(id, name)
      if (found.is === 'file') return yes(found)
      if (found.is === 'escape') return no('invalid', `${name} is no name of an artifact: ${found.reason}`)
      return no('unknown', `the run has no artifact ${name}`)
    },
    cancelRun,
    retryRun,
    discardRun,
    placement(id) {
      const run = durableRun(id)
      return run === undefined ? unknownRun(id) : yes(modules.scheduler.placement(run))
    },
    memories: () => modules.memories.listDurable(),
    forgetMemory: (repo, id) => changeMemory(() => modules.memories.forget(repo, id)),
    clearMemories: (repo) => changeMemory(() => modules.memories.clear(repo)),
  }
}
