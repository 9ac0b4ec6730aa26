/**
 * Chooses the worker for a queued run, or says why the run waits.
 *
 * The decision uses the current facts and is made again when one of them changes. The displayed reason is computed
 * here too, so it is the reason of the decision. The worker with the most free slots wins, then the one with the
 * fewest used slots, then the smallest id; equal facts give equal decisions.
 */
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Placement, WorkerAgents, WorkerState } from '../../protocol/worker.ts'
import type { JobNeeds } from '../run/job-needs.ts'
import { agentSubject, withCure } from '../run/queue-reasons.ts'
import { truncate } from '../safe-text.ts'

export interface WorkerFacts {
  readonly id: string
  readonly name: string
  readonly state: WorkerState
  readonly online: boolean
  readonly max: number
  readonly used: number
  /** The worker refused a dispatch and gets none before this instant. */
  readonly pausedUntil?: number
  /** Why the worker gets no dispatch until the hold ends. */
  readonly hold?: string
  /** The agents of the worker; absent for a worker that does not report them and counts as having all. */
  readonly agents?: WorkerAgents | undefined
  /** Things that the worker could not use a moment ago, such as a remote or a key, with their queue reasons. */
  readonly setbacks?: ReadonlyMap<string, { readonly reason: string }>
}

export interface PlacementRequest {
  readonly runId: string
  /** The worker whose sandbox a follow-up needs. */
  readonly requiredWorker?: string
  /** The condition that the run waits for, independent of workers: a whole sentence. */
  readonly waitingFor?: string
  /** The needs of the run's job, from a worker and from the configuration. */
  readonly needs?: JobNeeds
}

export type PlacementDecision =
  | { readonly is: 'placed'; readonly worker: string }
  | { readonly is: 'waits'; readonly reason: string }

/**
 * Returns the first reason that keeps this worker from this run. `holder`: the name of the worker that the run
 * requires.
 */
export function exclusionReason(
  worker: WorkerFacts,
  request: PlacementRequest,
  now: number,
  holder: string | undefined = request.requiredWorker,
): string | undefined {
  const lasting = worker.online ? lastingObstacle(worker, request) : undefined
  if (lasting !== undefined) return lasting.reason
  const obstacle = passingObstacle(worker, request, now)
  return obstacle === undefined ? undefined : sentences[obstacle](worker, holder)
}

/** Returns why no connected worker can take such a run until a worker or the configuration changes. */
export function lastingReason(request: PlacementRequest, workers: Iterable<WorkerFacts>): string | undefined {
  let clearest: LastingObstacle | undefined
  for (const worker of workers) {
    if (!worker.online) continue
    const obstacle = lastingObstacle(worker, request)
    if (obstacle === undefined) return undefined
    if (clearest === undefined || obstacle.rank < clearest.rank) clearest = obstacle
  }
  return clearest?.reason
}

export function placeRun(
  request: PlacementRequest,
  workers: Iterable<WorkerFacts>,
  now: number,
): PlacementDecision {
  const all = [...workers]
  if (request.waitingFor !== undefined)
    return { is: 'waits', reason: truncate(request.waitingFor, TEXT_CHARS_MAX) }
  const best = all
    .filter((worker) => exclusionReason(worker, request, now) === undefined)
    .toSorted(byPreference)[0]
  if (best !== undefined) return { is: 'placed', worker: best.id }
  return { is: 'waits', reason: waitReason(request, all, now) }
}

export function explainPlacement(
  request: PlacementRequest,
  workers: Iterable<WorkerFacts>,
  now: number,
): Placement {
  const all = [...workers]
  const holder = holderName(request, all)
  const decision = placeRun(request, all, now)
  return {
    runId: request.runId,
    ...(decision.is === 'placed' ? { worker: decision.worker } : { reason: decision.reason }),
    workers: all.map((worker) => {
      const reason = exclusionReason(worker, request, now, holder)
      return {
        id: worker.id,
        name: worker.name,
        free: freeSlots(worker),
        ...(reason === undefined ? {} : { reason }),
      }
    }),
  }
}

// ---- one worker ------------------------------------------------------------------------------------------------

type PassingObstacle = 'away' | 'draining' | 'held' | 'paused' | 'full' | 'elsewhere'

const sentences: Readonly<
  Record<PassingObstacle, (worker: WorkerFacts, holder: string | undefined) => string>
> = {
  away: () => 'not connected',
  draining: () => 'draining',
  held: ({ hold }) => `on hold: ${hold}`,
  paused: ({ pausedUntil = 0 }) =>
    `refused a dispatch; asked again at ${new Date(pausedUntil).toISOString()}`,
  full: ({ max }) => `all ${max} slots taken`,
  elsewhere: (_, holder) => `worker ${holder} holds the sandbox`,
}

function passingObstacle(
  worker: WorkerFacts,
  request: PlacementRequest,
  now: number,
): PassingObstacle | undefined {
  if (!worker.online) return 'away'
  if (worker.state === 'draining') return 'draining'
  if (worker.hold !== undefined) return 'held'
  if (worker.pausedUntil !== undefined && now < worker.pausedUntil) return 'paused'
  if (freeSlots(worker) === 0) return 'full'
  return request.requiredWorker === undefined || request.requiredWorker === worker.id
    ? undefined
    : 'elsewhere'
}

interface LastingObstacle {
  /** The smallest rank among the workers speaks for all. */
  readonly rank: number
  readonly reason: string
}

/** An obstacle that time does not remove: the worker has tried in vain, or the run lacks a credential or an agent. */
function lastingObstacle(
  { agents, setbacks }: WorkerFacts,
  { runId, needs }: PlacementRequest,
): LastingObstacle | undefined {
  if (needs === undefined) return undefined
  if (setbacks !== undefined && setbacks.size > 0) {
    for (const subject of [...needs.subjects, runSubject(runId)]) {
      const setback = setbacks.get(subject)
      if (setback !== undefined) return { rank: 0, reason: setback.reason }
    }
  }
  if (agents === undefined) return undefined
  const { missingCredential, agent } = needs
  if (missingCredential !== undefined) return { rank: 1, reason: missingCredential }
  if (agent === undefined || agents[agent]?.found === true) return undefined
  const cure = agents[agent]?.problem ?? `install ${agent} on a worker, on the PATH of the worker`
  return { rank: 2, reason: withCure(agentSubject(agent), cure) }
}

/** The subject of a setback that concerns no other run. */
export const runSubject = (runId: string): string => `run ${runId}`

/** The maximum may be lower than the number of used slots. */
function freeSlots({ max, used }: WorkerFacts): number {
  return Math.max(0, max - used)
}

function byPreference(a: WorkerFacts, b: WorkerFacts): number {
  return freeSlots(b) - freeSlots(a) || a.used - b.used || (a.id < b.id ? -1 : 1)
}

// ---- all workers -----------------------------------------------------------------------------------------------

/** The queue reason of every run while an operator has paused dispatching. */
export const PAUSED_REASON = 'paused'

/** The queue reasons that hold for all workers. */
export const FLEET_REASONS = {
  full: 'fleet at capacity',
  paused: 'all workers refused a dispatch a moment ago',
  held: 'all workers are on hold',
  draining: 'all workers are draining',
  away: 'no workers connected',
} as const

/** The obstacle of the worker closest to accepting the run speaks for all workers. */
function waitReason(request: PlacementRequest, all: readonly WorkerFacts[], now: number): string {
  if (request.requiredWorker !== undefined) {
    const holder = all.filter(({ id }) => id === request.requiredWorker)
    return lastingReason(request, holder) ?? `worker ${holderName(request, all)} holds the sandbox`
  }
  const fit = all.filter((worker) => lastingObstacle(worker, request) === undefined)
  const obstacles = new Set(fit.map((worker) => passingObstacle(worker, request, now)))
  const closest = (['full', 'paused', 'held', 'draining'] as const).find((obstacle) =>
    obstacles.has(obstacle),
  )
  if (closest !== undefined) return FLEET_REASONS[closest]
  return lastingReason(request, all) ?? FLEET_REASONS.away
}

function holderName({ requiredWorker }: PlacementRequest, all: readonly WorkerFacts[]): string | undefined {
  return all.find(({ id }) => id === requiredWorker)?.name ?? requiredWorker
}
