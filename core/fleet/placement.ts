/**
 * Says which worker a queued run would get, or why it waits; `firstFit` is the part by which the scheduler decides.
 *
 * The decision uses the current facts and is made again when one of them changes. A test holds that both agree. The preferred worker wins, then the one with the most free slots, then
 * the one with the fewest used slots, then the smallest id; equal facts give equal decisions.
 */
import type { Placement } from '../../protocol/explain.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import { truncate } from '../safe-text.ts'
import {
  exclusionReason,
  freeSlots,
  isSilent,
  type LastingObstacle,
  lastingObstacle,
  OBSTACLE_GATES,
  type PlacementRequest,
  passingObstacles,
  type WaitReason,
  type WorkerFacts,
} from './obstacles.ts'

export type PlacementDecision =
  | { readonly is: 'placed'; readonly worker: string }
  | ({ readonly is: 'waits' } & WaitReason)

/** Returns why no connected worker can take such a run until a worker or the configuration changes. */
export function lastingReason(
  request: PlacementRequest,
  workers: Iterable<WorkerFacts>,
): WaitReason | undefined {
  let clearest: LastingObstacle | undefined
  for (const worker of workers) {
    if (!worker.online) continue
    const obstacle = lastingObstacle(worker, request)
    if (obstacle === undefined) return undefined
    if (clearest === undefined || obstacle.rank < clearest.rank) clearest = obstacle
  }
  return clearest
}

export function placeRun(
  request: PlacementRequest,
  workers: Iterable<WorkerFacts>,
  now: number,
): PlacementDecision {
  const all = [...workers]
  if (request.waitingFor !== undefined) return waits(request.waitingFor)
  let best: WorkerFacts | undefined
  for (const worker of all) {
    const isBetter = best === undefined || byPreference(worker, best, request) < 0
    if (isBetter && exclusionReason(worker, request, now) === undefined) best = worker
  }
  if (best !== undefined) return { is: 'placed', worker: best.id }
  return waits(waitReason(request, all, now))
}

/** Returns the first worker that can take the run now, of workers that are in the order of free slots. */
export function firstFit<W extends WorkerFacts>(
  request: PlacementRequest,
  inOrder: Iterable<W>,
  now: number,
): W | undefined {
  for (const worker of inOrder) if (exclusionReason(worker, request, now) === undefined) return worker
  return undefined
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

const waits = ({ gate, reason }: WaitReason): PlacementDecision => ({
  is: 'waits',
  gate,
  reason: truncate(reason, TEXT_CHARS_MAX),
})

function byPreference(a: WorkerFacts, b: WorkerFacts, { preferredWorker }: PlacementRequest): number {
  if (a.id === preferredWorker || b.id === preferredWorker) return a.id === preferredWorker ? -1 : 1
  return freeSlots(b) - freeSlots(a) || a.used - b.used || (a.id < b.id ? -1 : 1)
}

// ---- reasons -----------------------------------------------------------------------------------------------------

/** The queue reason of every run while an operator has paused dispatching. */
export const PAUSED_REASON = 'paused'
export const PAUSED: WaitReason = { gate: 'policy', reason: PAUSED_REASON }

/** The queue reason of every run while the disk of the host is full. */
export const DISK_FULL: WaitReason = {
  gate: 'policy',
  reason: 'the disk of the host is full: free some space',
}
/** Why a run goes no further whose worker is unknown after a restart of the host. */
export const LEASE_LOST: WaitReason = {
  gate: 'workers',
  reason:
    'the record of its lease is lost: it begins again within minutes, when no worker can still work on it',
}
/** A run that a worker has goes on there, and the host stores what the worker reports once there is space. */
export const REPORTS_WAIT = 'what its worker reports waits: the disk of the host is full'

/** The queue reasons that hold for all workers. */
export const FLEET_REASONS = {
  full: 'fleet at capacity',
  paused: 'all workers refused a dispatch a moment ago',
  silent: 'all workers gave no answer to a dispatch a moment ago',
  held: 'all workers are on hold',
  draining: 'all workers are draining',
  away: 'no workers connected',
} as const

/** Begins the reason of a run that other workers, which lack something, could not take. */
export const ABLE_WORKERS = 'all workers that could take it'

/** Ends the reason of a run for which only workers with full disks have what it needs. */
export const NO_OTHER_WORKER = '; no other connected worker could take it'

const fleetReason = (obstacle: keyof typeof FLEET_REASONS, isOfAll = true): WaitReason => ({
  gate: OBSTACLE_GATES[obstacle === 'silent' ? 'paused' : obstacle],
  reason: isOfAll ? FLEET_REASONS[obstacle] : FLEET_REASONS[obstacle].replace(/^all workers/, ABLE_WORKERS),
})

/** The obstacle of the worker closest to accepting the run speaks for all workers. */
function waitReason(request: PlacementRequest, all: readonly WorkerFacts[], now: number): WaitReason {
  if (request.requiredWorker !== undefined) {
    const holder = all.filter(({ id }) => id === request.requiredWorker)
    const fullDisk = holder.find((worker) => isRefusingForDisk(worker, request, now))?.fullDisk
    const why = fullDisk === undefined ? '' : `, and its disk is full (${fullDisk})`
    const reason = `worker ${holderName(request, all)} holds the sandbox${why}`
    return lastingReason(request, holder) ?? { gate: OBSTACLE_GATES.elsewhere, reason }
  }
  const fit = all.filter((worker) => lastingObstacle(worker, request) === undefined)
  const obstacles = new Set(fit.map((worker) => passingObstacles(worker, request, now)[0]))
  const closest = (['full', 'paused', 'held', 'draining'] as const).find((obstacle) =>
    obstacles.has(obstacle),
  )
  const fullDisk = closest === 'full' ? undefined : fullDiskReason(fit, request, now)
  if (fullDisk !== undefined) {
    const haveAllWhatItNeeds = all.every((worker) => !worker.online || fit.includes(worker))
    return haveAllWhatItNeeds ? fullDisk : { ...fullDisk, reason: `${fullDisk.reason}${NO_OTHER_WORKER}` }
  }
  if (closest === 'held') {
    const { gate, reason } = fleetReason(closest, fit.length === all.length)
    const why = fit.find((worker) => passingObstacles(worker, request, now)[0] === closest)?.hold
    return { gate, reason: why === undefined ? reason : `${reason}: ${why}` }
  }
  const paused = fit.filter((worker) => passingObstacles(worker, request, now)[0] === 'paused')
  if (closest === 'paused' && paused.every(isSilent)) return fleetReason('silent', fit.length === all.length)
  if (closest !== undefined) return fleetReason(closest, fit.length === all.length)
  return lastingReason(request, all) ?? endedReason(request, all) ?? fleetReason('away')
}

/** Returns the reason of a run that waits for room on the disks of these workers only; absent ones do not count. */
function fullDiskReason(
  fit: readonly WorkerFacts[],
  request: PlacementRequest,
  now: number,
): WaitReason | undefined {
  const present = fit.filter(({ online }) => online)
  const [first] = present
  if (first?.fullDisk === undefined || !present.every((worker) => isRefusingForDisk(worker, request, now)))
    return undefined
  const others = present.length === 1 ? '' : `, and so are those of ${present.length - 1} more`
  return {
    gate: OBSTACLE_GATES.held,
    reason: `the disk of worker ${first.name} is full (${first.fullDisk})${others}`,
  }
}

function isRefusingForDisk(worker: WorkerFacts, request: PlacementRequest, now: number): boolean {
  const [obstacle] = passingObstacles(worker, request, now)
  return worker.fullDisk !== undefined && (obstacle === 'held' || obstacle === 'paused')
}

/** Returns what a machine that took its only run lacked. A new one most likely lacks the same, so none is wanted. */
function endedReason(request: PlacementRequest, all: readonly WorkerFacts[]): WaitReason | undefined {
  const ended = all.filter(({ online, max }) => !online && max === 0)
  return ended.map((worker) => lastingObstacle(worker, request)).find((obstacle) => obstacle !== undefined)
}

function holderName({ requiredWorker }: PlacementRequest, all: readonly WorkerFacts[]): string | undefined {
  return all.find(({ id }) => id === requiredWorker)?.name ?? requiredWorker
}
