/**
 * Which worker a queued run goes to, and why it waits when it goes to none.
 *
 * The question is asked of facts as they are now, and asked again when one of them changes. What a person reads is
 * made here too, so that the reason shown is the reason acted on. The most free slots win, then the fewest used, then
 * the id: work spreads, and the same facts always give the same answer.
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
  /** Not asked again before, because it refused a dispatch. */
  readonly pausedUntil?: number
  /** Why it gets no dispatch until this is cleared. */
  readonly hold?: string
}

export interface PlacementRequest {
  readonly runId: string
  /** The worker whose sandbox a follow-up needs. */
  readonly requiredWorker?: string
  /** What the run itself waits for, whatever the workers are like; a whole sentence. */
  readonly waitingFor?: string
}

export type PlacementDecision =
  | { readonly is: 'placed'; readonly worker: string }
  | { readonly is: 'waits'; readonly reason: string }

/** The first thing that keeps this worker from this run. `holder`: what the worker that the run needs is called. */
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

/** A maximum can be lowered below what is used already. */
function freeSlots({ max, used }: WorkerFacts): number {
  return Math.max(0, max - used)
}

function byPreference(a: WorkerFacts, b: WorkerFacts): number {
  return freeSlots(b) - freeSlots(a) || a.used - b.used || (a.id < b.id ? -1 : 1)
}

// ---- all of them -----------------------------------------------------------------------------------------------

/** The obstacle of the worker that is nearest to taking it speaks for all. */
function waitReason(request: PlacementRequest, all: readonly WorkerFacts[], now: number): string {
  if (request.requiredWorker !== undefined) return `worker ${holderName(request, all)} holds the sandbox`
  const obstacles = new Set(all.map((worker) => obstacleOf(worker, request, now)))
  if (obstacles.has('full')) return 'fleet at capacity'
  if (obstacles.has('paused')) return 'all workers refused a dispatch a moment ago'
  if (obstacles.has('held')) return 'all workers are on hold'
  return obstacles.has('draining') ? 'all workers are draining' : 'no workers connected'
}

function holderName(
  { requiredWorker: on }: PlacementRequest,
  all: readonly WorkerFacts[],
): string | undefined {
  return all.find(({ id }) => id === on)?.name ?? on
}
