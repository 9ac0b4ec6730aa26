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
import type { Rooms } from '../root/modules.ts'
import type { RunContext, RunInput } from '../runs/run.machine.ts'
import { RUN } from '../runs/run.names.ts'
import type { RunEffect } from '../runs/run-manager.ts'
import type { ActorSystem } from '../runtime/actor-system.ts'
import type { FrontDesk } from './host-api.ts'
import { asTold } from './pull-requests.ts'

/** What a disk may take to write that something is forgotten. */
const DELETION_MS_MAX = 5_000
const LATER = 'what was to be forgotten is forgotten as soon as the disk takes it'

export interface RunDeskParts {
  readonly clock: Pick<Clock, 'after'>
  readonly system: ActorSystem
  readonly store: Store
  readonly rooms: Rooms
  /** Refused while nothing may be changed. */
  readonly mayChange: () => Result<void>
  /** Everything up to now is on disk. */
  readonly landed: () => Promise<Result<void>>
  /** Refused while no code host is connected. */
  readonly pulls: () => Result<PullRequestApi>
}

type RunPart = Pick<
  FrontDesk,
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

export function runDesk({ clock, system, store, rooms, mayChange, landed, pulls }: RunDeskParts): RunPart {
  const { runs: shelf } = store.database

  /** What is on disk of it. */
  const durable = (id: string): Run | undefined => {
    const alive = system.peekDurable(RUN, id)?.context as RunContext | undefined
    return alive?.run ?? shelf.get(id)
  }
  const newest = (id: string): Run | undefined => {
    const alive = system.peek(RUN, id)?.context as RunContext | undefined
    return alive?.run ?? rooms.resting.latest(id)
  }
  const unknown = (id: string) => no('unknown', `there is no run ${id}`)
  const shown = (id: string): Result<Run> => {
    const run = durable(id)
    return run === undefined ? unknown(id) : yes(rooms.runs.withWaitReason(run))
  }
  const afterLanding = async (id: string): Promise<Result<Run>> => {
    const done = await landed()
    return done.ok ? shown(id) : done
  }

  async function runTicket(asked: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const ticket = rooms.intake.find(asked)
    const activeRun = ticket === undefined ? undefined : rooms.runs.activeRunOf(ticket.id)
    const may = mayRunTicket(asked, { ticket, activeRun })
    if (!may.ok) return may
    const queued = rooms.runs.createRun(may.value)
    return queued.ok ? afterLanding(queued.value) : queued
  }

  function runs(query: RunQuery) {
    const limit = query.limit === undefined ? {} : { limit: query.limit + 1 }
    const found = shelf.list({ ...query, ...limit })
    const more = query.limit !== undefined && found.length > query.limit
    if (more) found.pop()
    return yes({ runs: found.map((run) => rooms.runs.withWaitReason(run)), more })
  }

  async function cancelRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    if (newest(id) === undefined) return unknown(id)
    rooms.runs.send(id, { type: 'cancel requested', at: rooms.instant(), reason: 'cancelled by a person' })
    return afterLanding(id)
  }

  async function retryRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const run = newest(id)
    if (run === undefined) return unknown(id)
    const active = rooms.runs.activeRunOf(run.ticket.id)
    const competingRun = active === id ? undefined : active
    const may = mayRetry(run, { competingRun, booted: rooms.terminals.isBooted(id) })
    if (!may.ok) return may
    const room = rooms.runs.checkQueueLimit()
    if (!room.ok) return room
    const input: RunInput = {
      run: queueRetry(run, rooms.instant()),
      job: 'run',
      woken: run.status,
      earlier: null,
      attempts: attemptsOf(run.costs),
    }
    const born = system.spawn(RUN, id, input)
    return born.ok ? afterLanding(id) : born
  }

  async function discardRun(id: string): Promise<Result<Run>> {
    const open = mayChange()
    if (!open.ok) return open
    const run = newest(id)
    if (run === undefined) return unknown(id)
    const may = mayDiscard(run, { booted: rooms.terminals.isBooted(id) })
    if (!may.ok) return may
    const { workerId } = run.sandbox
    rooms.resting.update(markSandboxDiscarded(run, rooms.instant()))
    if (workerId !== undefined && rooms.workers.get(workerId) !== undefined) {
      rooms.undeliveredDiscards.add({ workerId, runId: id })
      const tellWorker: RunEffect = { type: 'run.send discard', workerId, runId: id }
      system.runAfterCommit(tellWorker)
    }
    const answer = await afterLanding(id)
    if (answer.ok && isTerminal(answer.value.status)) rooms.runPushes.publish(answer.value)
    return answer
  }

  /** Opening a run also asks after its pull request; whoever opened it hears of a change as everybody does. */
  function opened(id: string): Result<Run> {
    const run = shown(id)
    if (run.ok) rooms.pullWatch.pollRun(run.value)
    return run
  }

  async function runPull(id: string): Promise<Result<RunPullResponse>> {
    const run = durable(id)
    if (run === undefined) return unknown(id)
    const url = run.prUrl
    if (url === undefined) return no('unknown', `${id} has no pull request`)
    const host = pulls()
    if (!host.ok) return asTold(host)
    const place = host.value.parseUrl(url)
    if (place === undefined)
      return no('invalid', `the pull request of ${id} is not at the code host that is connected now`)
    const states = await host.value.states(place.remote, [place.number], 'person')
    if (!states.ok) return asTold(states)
    const state = states.value.get(place.number)
    if (state === undefined)
      return no('unknown', `the code host does not know the pull request of ${id} any more`)
    rooms.runs.onPullState(id, url, state)
    return yes({ url, number: place.number, state })
  }

  /** A deletion that the disk does not take has failed, as these routes have always called it. */
  async function changeMemory(change: () => Result<void>) {
    const open = mayChange()
    const { is } = store.database.state()
    if (!open.ok) return is === 'ready' ? open : no('failed', open.refusal.message)
    const changed = change()
    if (!changed.ok) return changed
    const done = await withTimeout(clock, DELETION_MS_MAX, landed(), 'the disk')
    if (done.ok) return yes(rooms.memories.listDurable())
    const state = store.database.state()
    // It had room when this was asked for.
    return state.is === 'ready' ? done : no('failed', `${state.reason}; ${LATER}`)
  }

  return {
    tickets: () => rooms.intake.eligible(),
    runTicket,
    runs,
    run: opened,
    runPull,
    runEvents: async (id, query) =>
      durable(id) === undefined ? unknown(id) : yes(await store.events.read(id, query)),
    async artifact(id, name) {
      if (durable(id) === undefined) return unknown(id)
      const found = await store.artifacts.find(id, name)
      if (found.is === 'file') return yes(found)
      if (found.is === 'escape') return no('invalid', `${name} is no name of an artifact: ${found.reason}`)
      return no('unknown', `the run has no artifact ${name}`)
    },
    cancelRun,
    retryRun,
    discardRun,
    placement(id) {
      const run = durable(id)
      return run === undefined ? unknown(id) : yes(rooms.scheduler.placement(run))
    },
    memories: () => rooms.memories.listDurable(),
    forgetMemory: (repo, id) => changeMemory(() => rooms.memories.forget(repo, id)),
    clearMemories: (repo) => changeMemory(() => rooms.memories.clear(repo)),
  }
}
