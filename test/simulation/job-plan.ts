/**
 * Draws a seed in which a controller starts a machine for each wanted run, as Kubernetes does with jobs.
 *
 * No worker is there at the start. Machines are killed, paused and cut off, and the host is killed and restarted, at
 * random. Every fifth seed has no faults, so that it shows how many machines the controller starts for how much work.
 */
import type { Random } from '../support/random.ts'
import {
  type ControllerPlan,
  drawFaultsOfKind,
  drawTicket,
  drawVisitsOf,
  type Plan,
  type PlannedFaultKind,
  type PlanTimes,
  randomFor,
  type TicketPlan,
  type WorkerPlan,
} from './plan.ts'

const FAULTS: readonly PlannedFaultKind[] = [
  'host crash',
  'host crash before flush',
  'host crash after flush',
  'host stop',
  'host pause',
  'disk slow',
  'worker crash',
  'worker crash before flush',
  'worker crash after flush',
  'worker stop',
  'worker pause',
  'break',
  'silence',
  'slow line',
  'cancel',
  'retry',
  'discard',
]
const MINUTE_MS = 60_000
/** Longest execution that nothing interrupts, on most machines and on the others. */
const RUN_MS_MAX = [2 * MINUTE_MS, 8 * MINUTE_MS] as const
const TIMES: PlanTimes = { faultsEndMs: 30 * MINUTE_MS, endMs: 55 * MINUTE_MS, runMsMax: RUN_MS_MAX[1] }
const QUIET_EVERY = 5

export const isQuiet = (seed: number): boolean => seed % QUIET_EVERY === 0

export function drawJobPlan(seed: number): Plan {
  const random = randomFor(seed, 'job plan')
  const tickets: TicketPlan[] = []
  const count = 1 + random.below(random.chance(0.2) ? 30 : 12)
  // Some tickets come as one crowd, the others one by one.
  const crowdAt = 1_000 + random.fraction() * TIMES.faultsEndMs * 0.5
  for (let at = 0; at < count; at++) {
    const ticket = drawTicket(random, tickets, TIMES)
    const isInCrowd = random.chance(0.5)
    tickets.push({ ...ticket, toggledAt: [], ...(isInCrowd ? { at: crowdAt } : {}) })
  }
  const faults = isQuiet(seed)
    ? []
    : FAULTS.flatMap((kind) => drawFaultsOfKind(randomFor(seed, kind), kind, TIMES))
  return {
    seed,
    ...TIMES,
    workers: [],
    tickets,
    faults: faults.sort((a, b) => a.at - b.at).map((fault, at) => ({ ...fault, id: `f${at + 1}` })),
    refusals: [],
    visits: isQuiet(seed) ? [] : drawVisitsOf(seed, TIMES),
    controller: drawController(random),
    latencyMs: 1 + random.fraction() * 40,
    flushMs: random.chance(0.8) ? 4 : 60,
  }
}

function drawController(random: Random): ControllerPlan {
  return {
    pollMs: 2_000 + random.fraction() * 28_000,
    workersMax: 4 + random.below(20),
    bootMsMax: random.chance(0.7) ? 5_000 : 60_000,
    idleMsMax: 60_000 + random.fraction() * 240_000,
  }
}

/** A machine for one run, which a controller starts and nobody switches on again. */
export function drawJobWorker(random: Random, id: string, at: number, idleMsMax: number): WorkerPlan {
  return {
    id,
    implementation: 'daemon',
    job: { idleMsMax },
    addsKeys: false,
    at,
    concurrency: 1,
    bufferMax: 1_000,
    declineShare: random.chance(0.9) ? 0 : 0.3,
    afterCrash: 'forgets',
    cancelMsMax: 3_000,
    runMsMax: RUN_MS_MAX[random.chance(0.8) ? 0 : 1],
    logLinesMax: 15,
    dyingMsMax: 500,
    drainMsMax: random.chance(0.5) ? undefined : random.fraction() * 180_000,
  }
}
