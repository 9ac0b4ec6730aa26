/**
 * Chooses the worker for a queued run, or says why the run waits.
 *
 * The decision uses the current facts and is made again when one of them changes. The displayed reason is computed
 * here too, so it is the reason of the decision. The worker with the most free slots wins, then the one with the
 * fewest used slots, then the smallest id; equal facts give equal decisions.
 */
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Placement, WorkerState } from '../../protocol/worker.ts'
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
}

export interface PlacementRequest {
  readonly runId: string
  /** The worker whose sandbox a follow-up needs. */
  readonly requiredWorker?: string
  /** The condition that the run waits for, independent of workers: a whole sentence. */
  readonly waitingFor?: string
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
  const obstacle = obstacleOf(worker, request, now)
  return obstacle === undefined ? undefined : sentences[obstacle](worker, holder)
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
    .filter((worker) => obstacleOf(worker, request, now) === undefined)
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

type Obstacle = 'away' | 'draining' | 'held' | 'paused' | 'full' | 'elsewhere'

const sentences: Readonly<Record<Obstacle, (worker: WorkerFacts, holder: string | undefined) => string>> = {
  away: () => 'not connected',
  draining: () => 'draining',
  held: ({ hold }) => `on hold: ${hold}`,
  paused: ({ pausedUntil = 0 }) =>
    `refused a dispatch; asked again at ${new Date(pausedUntil).toISOString()}`,
  full: ({ max }) => `all ${max} slots taken`,
  elsewhere: (_, holder) => `worker ${holder} holds the sandbox`,
}

function obstacleOf(worker: WorkerFacts, request: PlacementRequest, now: number): Obstacle | undefined {
  if (!worker.online) return 'away'
  if (worker.state === 'draining') return 'draining'
  if (worker.hold !== undefined) return 'held'
  if (worker.pausedUntil !== undefined && now < worker.pausedUntil) return 'paused'
  if (freeSlots(worker) === 0) return 'full'
  return request.requiredWorker === undefined || request.requiredWorker === worker.id
    ? undefined
    : 'elsewhere'
}

/** The maximum may be lower than the number of used slots. */
function freeSlots({ max, used }: WorkerFacts): number {
  return Math.max(0, max - used)
}

function byPreference(a: WorkerFacts, b: WorkerFacts): number {
  return freeSlots(b) - freeSlots(a) || a.used - b.used || (a.id < b.id ? -1 : 1)
}

// ---- all workers -----------------------------------------------------------------------------------------------

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
  if (request.requiredWorker !== undefined) return `worker ${holderName(request, all)} holds the sandbox`
  const obstacles = new Set(all.map((worker) => obstacleOf(worker, request, now)))
  const closest = (['full', 'paused', 'held', 'draining'] as const).find((obstacle) =>
    obstacles.has(obstacle),
  )
  return FLEET_REASONS[closest ?? 'away']
}

function holderName({ requiredWorker }: PlacementRequest, all: readonly WorkerFacts[]): string | undefined {
  return all.find(({ id }) => id === requiredWorker)?.name ?? requiredWorker
}
