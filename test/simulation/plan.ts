/**
 * Draws what will happen in one seed, before it runs, as plain data.
 *
 * Each seed has its own mix: most kinds of faults are absent, some are rare, a few are very frequent. A fault
 * happens at a time, or waits for a lease to enter a state, because some states last milliseconds. Every part of a
 * plan has an id and its own random numbers. So the runner can leave out parts until only those that cause a
 * violation remain, and the others change little.
 */
import { Random } from '../support/random.ts'
import { isHostDamaging } from './host-damage.ts'
import { drawSettingChanges, type SettingChange } from './settings-plan.ts'
import { drawSleeps, type Sleep } from './sleep-plan.ts'
import { drawVisits, type Visit } from './visit-plan.ts'

const MINUTE_MS = 60_000
/** Time for restarts, forgotten sockets and the longest backoff after the last fault. */
export const SETTLING_MS = 150_000

/** How much one seed simulates. */
interface Scale {
  /** The faults end at a time between these. */
  readonly faultsEndMs: readonly [number, number]
  /** Time without faults: longer than the longest execution and the life of a lease without its worker. */
  readonly calmMs: number
  /** Longest execution that nothing interrupts, on most workers and on the others. */
  readonly runMsMax: readonly [usual: number, rare: number]
  readonly workersMax: number
  readonly ticketsMax: number
}

/** Two simulated hours. */
const LONG: Scale = {
  faultsEndMs: [72 * MINUTE_MS, 72 * MINUTE_MS],
  calmMs: 48 * MINUTE_MS,
  runMsMax: [4 * MINUTE_MS, 15 * MINUTE_MS],
  workersMax: 5,
  ticketsMax: 11,
}
const CROWDED: Scale = {
  faultsEndMs: [10 * MINUTE_MS, 25 * MINUTE_MS],
  calmMs: 12 * MINUTE_MS,
  runMsMax: [MINUTE_MS, 4 * MINUTE_MS],
  workersMax: 20,
  ticketsMax: 30,
}
/** Most seeds are small: many of them find more than a few large ones, and a person reads them sooner. */
const SMALL: Scale = {
  faultsEndMs: [6 * MINUTE_MS, 30 * MINUTE_MS],
  calmMs: 12 * MINUTE_MS,
  runMsMax: [1.5 * MINUTE_MS, 4 * MINUTE_MS],
  workersMax: 3,
  ticketsMax: 5,
}
const LONG_SHARE = 0.04
const CROWDED_SHARE = 0.03

/** The times of one seed's plan. */
export interface PlanTimes {
  readonly faultsEndMs: number
  readonly endMs: number
  /** Longest execution that nothing interrupts. */
  readonly runMsMax: number
}

export const LEASE_STATES = ['offered', 'unconfirmed', 'held', 'adrift', 'cancelling'] as const
export type LeaseState = (typeof LEASE_STATES)[number]

export const HOST_FAULTS = [
  'host crash',
  'host crash before flush',
  'host crash after flush',
  'host stop',
  'host pause',
  'host wall jump',
  'disk full',
  'disk slow',
  'disk broken',
] as const
export const WORKER_FAULTS = [
  'worker crash',
  'worker crash before flush',
  'worker crash after flush',
  'worker stop',
  'worker disk full',
  'worker disk slow',
  'worker disk broken',
  'worker pause',
  'worker wall jump',
  'break',
  'silence',
  'slow line',
  'second socket',
  'hostile line',
  'foreign claim',
  'false pull',
] as const
export const OPERATOR_FAULTS = [
  'cancel',
  'retry',
  'discard',
  'drain',
  'enable',
  'revoke',
  'own drain',
  'own enable',
  'token race',
] as const
export const FAULT_KINDS = [...HOST_FAULTS, ...WORKER_FAULTS, ...OPERATOR_FAULTS] as const
export type PlannedFaultKind = (typeof FAULT_KINDS)[number]

export interface PlannedFault {
  /** `f1`, `f2`, … in the order of their times. */
  readonly id: string
  readonly kind: PlannedFaultKind
  /** Earliest time of the fault. */
  readonly at: number
  /** From `at` on, the fault waits for a lease to enter this state; undefined: it happens at `at`. */
  readonly leaseState: LeaseState | undefined
  /** Chooses the worker or run, as a fraction of the existing ones. */
  readonly target: number
  /** Duration in milliseconds: downtime, pause, silence or delay. */
  readonly ms: number
  /** Strength, from 0 to 1. */
  readonly size: number
  /** Before the host starts again, rows of its disk are damaged. */
  readonly damages?: true
}

/** Faults that only the product's daemon supports: a script has neither signals nor a disk that fails. */
const DAEMON_FAULTS: ReadonlySet<PlannedFaultKind> = new Set([
  'worker stop',
  'worker disk full',
  'worker disk slow',
  'worker disk broken',
])

/** Faults that only a script supports: the product's daemon reports no pull request that it has not opened. */
const SCRIPT_FAULTS: ReadonlySet<PlannedFaultKind> = new Set(['false pull'])

export type CommitPoint = 'before flush' | 'after flush'

export interface WorkerPlan {
  /** `w1`, `w2`, … */
  readonly id: string
  /** The product's daemon, or a script written from the specification alone. */
  readonly implementation: 'daemon' | 'script'
  /** Whether worker and host send what a later version of the protocol would add. */
  readonly addsKeys: boolean
  /** Whether a script is of the first released version, which refuses keys and frames that it does not know. */
  readonly isFirstForm?: boolean
  /** When the machine is switched on. */
  readonly at: number
  readonly concurrency: number
  /** Unacknowledged frames that a script keeps for one lease. */
  readonly bufferMax: number
  /** How often the worker declines a dispatch without need, from 0 to 1. */
  readonly declineShare: number
  /** How a script treats an execution that its own crash ended. */
  readonly afterCrash: 'forgets' | 'reports failure'
  /** Longest time to stop after a request; the host waits 15 seconds. */
  readonly cancelMsMax: number
  readonly runMsMax: number
  /** Log lines that an execution prints. */
  readonly logLinesMax: number
  /** Longest time that killed processes need to exit. */
  readonly dyingMsMax: number
  /** How long a daemon that was asked to end waits for its executions; undefined: as long as they take. */
  readonly drainMsMax: number | undefined
  /** The machine is for one run: its worker ends after it, or when it is idle, and is never switched on again. */
  readonly job?: { readonly idleMsMax: number }
}

/** What starts a machine for each wanted run. */
export interface ControllerPlan {
  /** Interval in which it asks for the demand. */
  readonly pollMs: number
  /** How many machines it runs at once at most. */
  readonly workersMax: number
  /** Longest time until a started machine runs its worker. */
  readonly bootMsMax: number
  /** How long a worker waits for a run. */
  readonly idleMsMax: number
}

export interface TicketPlan {
  /** `t1`, `t2`, … */
  readonly id: string
  readonly at: number
  /** Another ticket that must be done first. */
  readonly blockedBy: string | undefined
  readonly priority: 0 | 1 | 2 | 3 | 4
  /** When somebody moves the ticket out of the eligible state, and back again. */
  readonly toggledAt: readonly number[]
}

/** A time in which the code host takes no push, as a rule of the repository or a dead token causes it. */
export interface RefusalPlan {
  /** `r1`, `r2`, … */
  readonly id: string
  readonly at: number
  readonly ms: number
}

export interface Plan extends PlanTimes {
  readonly seed: number
  readonly workers: readonly WorkerPlan[]
  readonly tickets: readonly TicketPlan[]
  readonly faults: readonly PlannedFault[]
  readonly visits: readonly Visit[]
  readonly refusals: readonly RefusalPlan[]
  readonly changes?: readonly SettingChange[]
  readonly sleeps?: readonly Sleep[]
  readonly controller?: ControllerPlan
  /** Latency of links and of disk flushes without faults. */
  readonly latencyMs: number
  readonly flushMs: number
}

/** Share of the time with faults before which few runs have ended. */
const VISITS_START_SHARE = 0.15

/** Random numbers for one part of one seed's plan. */
export function randomFor(seed: number, concern: string): Random {
  let mixed = seed | 0
  for (let at = 0; at < concern.length; at++) mixed = Math.imul(mixed ^ concern.charCodeAt(at), 0x01000193)
  return new Random(mixed)
}

export function drawPlan(seed: number, damagesHost = isHostDamaging(seed)): Plan {
  const random = randomFor(seed, 'plan')
  const scale = drawScale(random)
  const times = drawTimes(random, scale)
  const { kind } = encounterOf(seed)
  const scripts = DAEMON_FAULTS.has(kind) ? 0 : SCRIPT_FAULTS.has(kind) ? 1 : 0.3
  const workers = repeat(1 + random.below(scale.workersMax), (at) =>
    drawWorker(random, `w${at + 1}`, scripts, scale, times, randomFor(seed, `version of w${at + 1}`)),
  )
  const tickets: TicketPlan[] = []
  for (let left = 2 + random.below(scale.ticketsMax - 1); left > 0; left--)
    tickets.push(drawTicket(random, tickets, times))
  return {
    seed,
    ...times,
    workers,
    tickets,
    faults: [
      ...drawFaults(seed, times),
      ...(damagesHost ? drawHostDamage(randomFor(seed, 'host damage'), times) : []),
    ],
    visits: drawVisitsOf(seed, times),
    refusals: seed % REFUSING_OF === 2 ? drawRefusals(randomFor(seed, 'refusals'), times) : [],
    changes: drawSettingChanges(randomFor(seed, 'settings'), seed, times.faultsEndMs),
    sleeps: drawSleeps(randomFor(seed, 'sleeps'), seed, times.faultsEndMs),
    latencyMs: 1 + random.fraction() * 40,
    flushMs: random.chance(0.8) ? 4 : 60,
  }
}

/** In one of so many seeds pushes are refused for a while. */
const REFUSING_OF = 4
const REFUSALS_MAX = 3
const REFUSAL_MS = [20_000, 15 * MINUTE_MS] as const

function drawRefusals(random: Random, { faultsEndMs }: PlanTimes): RefusalPlan[] {
  return repeat(1 + random.below(REFUSALS_MAX), (at) => {
    const beginsAt = random.fraction() * faultsEndMs
    return {
      id: `r${at + 1}`,
      at: beginsAt,
      ms: Math.min(logUniform(random, ...REFUSAL_MS), faultsEndMs - beginsAt),
    }
  })
}

function drawScale(random: Random): Scale {
  const roll = random.fraction()
  return roll < LONG_SHARE ? LONG : roll < LONG_SHARE + CROWDED_SHARE ? CROWDED : SMALL
}

function drawTimes(random: Random, { faultsEndMs: [from, to], calmMs, runMsMax }: Scale): PlanTimes {
  const faultsEndMs = Math.floor(logUniform(random, from, to))
  return { faultsEndMs, endMs: faultsEndMs + calmMs, runMsMax: runMsMax[1] }
}

export function drawVisitsOf(seed: number, { faultsEndMs, endMs }: PlanTimes): Visit[] {
  const judged = [faultsEndMs + SETTLING_MS, endMs]
  return drawVisits(randomFor(seed, 'visits'), faultsEndMs * VISITS_START_SHARE, judged)
}

/** @param scripts probability that the worker is a script */
function drawWorker(
  random: Random,
  id: string,
  scripts: number,
  { runMsMax }: Scale,
  { faultsEndMs }: PlanTimes,
  version: Random,
): WorkerPlan {
  const addsKeys = version.chance(0.25)
  return {
    id,
    implementation: random.chance(scripts) ? 'script' : 'daemon',
    addsKeys,
    isFirstForm: version.chance(0.4) && !addsKeys,
    at: random.chance(0.7) ? random.fraction() * 30_000 : random.fraction() * faultsEndMs,
    concurrency: 1 + random.below(4),
    bufferMax: random.chance(0.5) ? 12 + random.below(20) : 1_000,
    declineShare: random.chance(0.8) ? 0 : random.fraction() * 0.4,
    afterCrash: random.chance(0.5) ? 'forgets' : 'reports failure',
    cancelMsMax: random.chance(0.8) ? 3_000 : 30_000,
    runMsMax: runMsMax[random.chance(0.7) ? 0 : 1],
    logLinesMax: random.chance(0.8) ? 15 : 60,
    dyingMsMax: random.chance(0.7) ? 500 : random.chance(0.5) ? 10_000 : 50_000,
    drainMsMax: random.chance(0.5) ? undefined : random.fraction() * 180_000,
  }
}

export function drawTicket(
  random: Random,
  earlier: readonly TicketPlan[],
  { faultsEndMs }: PlanTimes,
): TicketPlan {
  const at = random.fraction() * faultsEndMs * 0.9
  const blocker = random.chance(0.15) && earlier.length > 0 ? random.pick(earlier).id : undefined
  const moves = random.chance(0.2)
    ? repeat(1 + random.below(3), () => at + random.fraction() * (faultsEndMs - at))
    : []
  return {
    id: `t${earlier.length + 1}`,
    at,
    blockedBy: blocker,
    priority: random.pick([0, 1, 2, 3, 4] as const),
    toggledAt: moves.sort((a, b) => a - b),
  }
}

function drawFaults(seed: number, times: PlanTimes): PlannedFault[] {
  const drawn = [
    ...FAULT_KINDS.flatMap((kind) => drawFaultsOfKind(randomFor(seed, kind), kind, times)),
    ...drawEncounter(seed, times),
  ]
  drawn.sort((a, b) => a.at - b.at)
  return drawn.map((fault, at) => ({ ...fault, id: `f${at + 1}` }))
}

const HOST_DAMAGES_MAX = 4
/** A host that ended in order checks no page at its next start. */
const CRASHED_SHARE = 0.7

const drawHostDamage = (random: Random, times: PlanTimes): PlannedFault[] =>
  repeat(1 + random.below(HOST_DAMAGES_MAX), (at) => ({
    ...drawFault(random, random.chance(CRASHED_SHARE) ? 'host crash' : 'host stop', times),
    id: `d${at + 1}`,
    damages: true,
  }))

/**
 * Faults that bring a lease into a state which rarely occurs otherwise, in turn, and the state that each of them waits
 * for. A crash leaves no process that another fault could hit, and a broken link does.
 */
const PRELUDES: Readonly<Partial<Record<LeaseState, readonly [readonly PlannedFaultKind[], LeaseState]>>> = {
  unconfirmed: [['worker crash', 'break', 'worker crash', 'break'], 'offered'],
  adrift: [['worker crash', 'break', 'worker crash', 'break'], 'held'],
  cancelling: [['cancel', 'cancel', 'cancel'], 'held'],
}

/** The host notices the crash at once, and the person who cancels keeps the sandbox. */
const PRELUDE_SIZE = 0.3
/** Time between two preludes and between two tries, as shares of the time with faults. */
const PRELUDE_SHARE = 0.07
const TRY_SHARE = 0.25

/** Makes one fault meet one lease state in each seed, in turn: chance alone misses some pairs for too long. */
function drawEncounter(seed: number, times: PlanTimes): PlannedFault[] {
  const random = randomFor(seed, 'encounter')
  const { kind, state } = encounterOf(seed)
  const at = 5_000 + random.fraction() * times.faultsEndMs * 0.5
  const [preludes, stateBefore] = PRELUDES[state] ?? [[], undefined]
  return [
    ...[0, TRY_SHARE].map((share) => ({
      ...drawFault(random, kind, times),
      leaseState: state,
      at: at + share * times.faultsEndMs,
    })),
    ...preludes.map((prelude, turn) => ({
      ...drawFault(random, prelude, times),
      leaseState: stateBefore,
      at: at + turn * PRELUDE_SHARE * times.faultsEndMs,
      ms: 5_000,
      size: PRELUDE_SIZE,
    })),
  ]
}

function encounterOf(seed: number): { readonly kind: PlannedFaultKind; readonly state: LeaseState } {
  const kind = FAULT_KINDS[seed % FAULT_KINDS.length] ?? 'host crash'
  const state = LEASE_STATES[Math.floor(seed / FAULT_KINDS.length) % LEASE_STATES.length] ?? 'held'
  return { kind, state }
}

export function drawFaultsOfKind(random: Random, kind: PlannedFaultKind, times: PlanTimes): PlannedFault[] {
  const roll = random.fraction()
  const many = Math.ceil((20 * times.faultsEndMs) / LONG.faultsEndMs[0])
  const count = roll < 0.75 ? 0 : roll < 0.95 ? 1 + random.below(2) : 2 + random.below(many)
  return repeat(count, () => drawFault(random, kind, times))
}

function drawFault(random: Random, kind: PlannedFaultKind, { faultsEndMs }: PlanTimes): PlannedFault {
  return {
    id: '',
    kind,
    at: 5_000 + random.fraction() * (faultsEndMs - 10_000),
    leaseState: random.chance(0.5) ? random.pick(LEASE_STATES) : undefined,
    target: random.fraction(),
    ms: drawMs(random, kind),
    size: random.fraction(),
  }
}

/** From milliseconds to minutes, with each order of magnitude equally likely. */
const logUniform = (random: Random, from: number, to: number): number =>
  from * (to / from) ** random.fraction()

function drawMs(random: Random, kind: PlannedFaultKind): number {
  if (kind === 'host pause' || kind === 'worker pause') return logUniform(random, 1_000, 400_000)
  if (kind === 'silence') return logUniform(random, 2_000, 600_000)
  if (/disk (full|slow)/.test(kind)) return logUniform(random, 500, 300_000)
  if (kind === 'slow line' || kind === 'hostile line') return logUniform(random, 5_000, 400_000)
  return logUniform(random, 200, 300_000)
}

const repeat = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))

// ---- leaving out parts ---------------------------------------------------------------------------------------------

/** The plan with only the named faults, workers, tickets and visits. */
export function keepOnly(plan: Plan, names: ReadonlySet<string>): Plan {
  const kept = <T extends { readonly id: string }>(all: readonly T[]) => all.filter(({ id }) => names.has(id))
  return {
    ...plan,
    workers: kept(plan.workers),
    tickets: kept(plan.tickets),
    faults: kept(plan.faults),
    visits: kept(plan.visits),
    refusals: kept(plan.refusals),
    changes: kept(plan.changes ?? []),
    sleeps: kept(plan.sleeps ?? []),
  }
}

/** Ids of all parts that can be left out. */
export const idsIn = ({
  faults,
  workers,
  tickets,
  visits,
  refusals,
  changes = [],
  sleeps = [],
}: Plan): string[] =>
  [...faults, ...workers, ...tickets, ...visits, ...refusals, ...changes, ...sleeps].map(({ id }) => id)

/** Describes the plan for people. */
export function describePlan({
  seed,
  workers,
  tickets,
  faults,
  visits,
  refusals,
  changes = [],
  sleeps = [],
}: Plan): string {
  const lines = faults.map(
    ({ id, kind, at, leaseState: met, ms, size, target, damages }) =>
      `  ${id} ${clockText(at)} ${kind}${damages ? ' with damage' : ''}${met === undefined ? '' : ` when a lease becomes ${met}`}` +
      ` (${(ms / 1000).toFixed(1)} s, size ${size.toFixed(2)}, target ${target.toFixed(2)})`,
  )
  const workerLines = workers.map(
    (worker) =>
      `  ${worker.id} (${worker.implementation}) from ${clockText(worker.at)}, ${worker.concurrency} at once${
        worker.implementation === 'daemon' ? '' : `, keeps ${worker.bufferMax} frames, ${worker.afterCrash}`
      }`,
  )
  const ticketLines = tickets.map(
    ({ id, at, blockedBy }) =>
      `  ${id} from ${clockText(at)}${blockedBy === undefined ? '' : `, behind ${blockedBy}`}`,
  )
  const visitLines = visits.map(
    ({ id, actions }) => `  ${id} ${actions.map(({ kind, at }) => `${clockText(at)} ${kind}`).join(', ')}`,
  )
  const refusalLines = refusals.map(
    ({ id, at, ms }) => `  ${id} ${clockText(at)} no push is taken for ${(ms / 1000).toFixed(1)} s`,
  )
  const changeLines = changes.map(
    ({ id, kind, at, ms }) => `  ${id} ${clockText(at)} ${kind} (${(ms / 1000).toFixed(1)} s)`,
  )
  const sleepLines = sleeps.map(
    ({ id, at, ms, who }) => `  ${id} ${clockText(at)} ${who} sleeps for ${(ms / 1000).toFixed(1)} s`,
  )
  const parts = [workerLines, ticketLines, visitLines, refusalLines, changeLines, sleepLines, lines]
  return [`seed ${seed}`, ...parts.flat()].join('\n')
}

export function clockText(ms: number): string {
  const seconds = ms / 1000
  const part = (value: number) => String(Math.floor(value)).padStart(2, '0')
  return `${part(seconds / 3600)}:${part((seconds / 60) % 60)}:${(seconds % 60).toFixed(3).padStart(6, '0')}`
}
