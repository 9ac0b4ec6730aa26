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
  END_MS,
  FAULTS_END_MS,
  type Plan,
  type PlannedFaultKind,
  RUN_MS_MAX,
  randomFor,
  SETTLING_MS,
  type TicketPlan,
  type WorkerPlan,
} from './plan.ts'
import { drawVisits } from './visit-plan.ts'

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
/** No run has ended before this time. */
const VISITS_START_MS = 8 * 60_000
const JUDGED_TIMES = [FAULTS_END_MS + SETTLING_MS, END_MS]
const QUIET_EVERY = 5

export const isQuiet = (seed: number): boolean => seed % QUIET_EVERY === 0

export function drawJobPlan(seed: number): Plan {
  const random = randomFor(seed, 'job plan')
  const tickets: TicketPlan[] = []
  const count = 1 + random.below(random.chance(0.2) ? 30 : 12)
  // Some tickets come as one crowd, the others one by one.
  const crowdAt = 1_000 + random.fraction() * FAULTS_END_MS * 0.5
  for (let at = 0; at < count; at++) {
    const ticket = drawTicket(random, tickets)
    const isInCrowd = random.chance(0.5)
    tickets.push({ ...ticket, toggledAt: [], ...(isInCrowd ? { at: crowdAt } : {}) })
  }
  const faults = isQuiet(seed) ? [] : FAULTS.flatMap((kind) => drawFaultsOfKind(randomFor(seed, kind), kind))
  return {
    seed,
    workers: [],
    tickets,
    faults: faults.sort((a, b) => a.at - b.at).map((fault, at) => ({ ...fault, id: `f${at + 1}` })),
    visits: isQuiet(seed) ? [] : drawVisits(randomFor(seed, 'visits'), VISITS_START_MS, JUDGED_TIMES),
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
    runMsMax: random.chance(0.8) ? 4 * 60_000 : RUN_MS_MAX,
    logLinesMax: 15,
    dyingMsMax: 500,
    drainMsMax: random.chance(0.5) ? undefined : random.fraction() * 180_000,
  }
}
