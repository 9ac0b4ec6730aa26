/**
 * What one seed will go through, drawn before anything happens and written down as plain data.
 *
 * Each seed has its own mix: most kinds of faults do not occur, some a little, a few far more than in any life. A
 * fault comes at a time, or lies in wait for a lease to reach a state, because some states last milliseconds. Since
 * everything is in the plan under a name, a story that breaks a law can be told again without one of its faults,
 * workers or tickets, until nothing more can be left out. The dice of each part are its own, so that leaving one
 * out changes as little as possible for the others.
 */
import { Random } from '../support/random.ts'
import { drawVisits, type Visit } from './planned-visits.ts'

export const HOURS = 3_600_000
/** Two simulated hours, of which the first part has faults. */
export const END = 2 * HOURS
export const CALM = 0.6 * END
/** Time for restarts, forgotten sockets and the longest backoff, once nothing disturbs. */
export const SETTLING = 150_000
/** The longest an execution takes by itself. */
export const RUN_MS_MAX = 15 * 60_000

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
export const FAULTS = [...HOST_FAULTS, ...WORKER_FAULTS, ...OPERATOR_FAULTS] as const
export type FaultKind = (typeof FAULTS)[number]

export interface Fault {
  /** `f1`, `f2`, … in the order of their times. */
  readonly id: string
  readonly kind: FaultKind
  /** From then on. */
  readonly at: number
  /** It waits, from `at` on, for a lease to come into this state. */
  readonly met: LeaseState | undefined
  /** Which worker or run, as a fraction of those there are. */
  readonly target: number
  /** How long, in milliseconds: downtime, pause, silence, time after which … */
  readonly ms: number
  /** How much, from 0 to 1. */
  readonly size: number
}

/** What only the product's daemon knows: a script has neither signals nor a disk that fails. */
const DAEMON_FAULTS: ReadonlySet<FaultKind> = new Set([
  'worker stop',
  'worker disk full',
  'worker disk slow',
  'worker disk broken',
])

export type CommitPoint = 'before flush' | 'after flush'

export interface WorkerPlan {
  /** `w1`, `w2`, … */
  readonly id: string
  /** The product's daemon, or a script that was written from the specification alone. */
  readonly is: 'daemon' | 'script'
  /** When its machine is switched on. */
  readonly at: number
  readonly concurrency: number
  /** Frames a script keeps unacknowledged for one lease. */
  readonly bufferMax: number
  /** How often it declines a dispatch for each reason it may have. */
  readonly declines: number
  /** What a script does with an execution that its own crash ended. */
  readonly afterCrash: 'forgets' | 'reports failure'
  /** How long it takes to stop when asked to; beyond fifteen seconds nobody waits for it. */
  readonly cancelMsMax: number
  readonly runMsMax: number
  /** Log lines an execution prints. */
  readonly chatter: number
  /** How long processes need to go once they are killed. */
  readonly dyingMsMax: number
  /** How long a daemon that is asked to end waits for its executions; undefined: as long as they take. */
  readonly drainMsMax: number | undefined
}

export interface TicketPlan {
  /** `t1`, `t2`, … */
  readonly id: string
  readonly at: number
  /** Another ticket that must be done first. */
  readonly blockedBy: string | undefined
  readonly priority: 0 | 1 | 2 | 3 | 4
  /** When somebody moves it out of the eligible state, and back again. */
  readonly moves: readonly number[]
}

export interface Plan {
  readonly seed: number
  readonly workers: readonly WorkerPlan[]
  readonly tickets: readonly TicketPlan[]
  readonly faults: readonly Fault[]
  readonly visits: readonly Visit[]
  /** How quick the disk and the lines are on a good day. */
  readonly latencyMs: number
  readonly flushMs: number
}

/** There is nothing to look at before. */
const VISITS_FROM = 8 * 60_000

/** A generator for one concern of one seed. */
export function diceOf(seed: number, concern: string): Random {
  let mixed = seed | 0
  for (let at = 0; at < concern.length; at++) mixed = Math.imul(mixed ^ concern.charCodeAt(at), 0x01000193)
  return new Random(mixed)
}

export function drawPlan(seed: number): Plan {
  const dice = diceOf(seed, 'plan')
  const many = dice.random(0.1)
  const scripts = DAEMON_FAULTS.has(encountered(seed).kind) ? 0 : 0.3
  const workers = list(1 + (many ? dice.below(20) : dice.below(5)), (at) =>
    drawWorker(dice, `w${at + 1}`, scripts),
  )
  const count = 2 + (many ? dice.below(30) : dice.below(10))
  const tickets: TicketPlan[] = []
  for (let at = 0; at < count; at++) tickets.push(drawTicket(dice, tickets))
  return {
    seed,
    workers,
    tickets,
    faults: drawFaults(seed),
    visits: drawVisits(diceOf(seed, 'visits'), VISITS_FROM, [CALM + SETTLING, END]),
    latencyMs: 1 + dice.fraction() * 40,
    flushMs: dice.random(0.8) ? 4 : 60,
  }
}

/** @param scripts how likely it is a script */
function drawWorker(dice: Random, id: string, scripts: number): WorkerPlan {
  return {
    id,
    is: dice.random(scripts) ? 'script' : 'daemon',
    at: dice.random(0.7) ? dice.fraction() * 30_000 : dice.fraction() * CALM,
    concurrency: 1 + dice.below(4),
    bufferMax: dice.random(0.5) ? 12 + dice.below(20) : 1_000,
    declines: dice.random(0.8) ? 0 : dice.fraction() * 0.4,
    afterCrash: dice.random(0.5) ? 'forgets' : 'reports failure',
    cancelMsMax: dice.random(0.8) ? 3_000 : 30_000,
    runMsMax: dice.random(0.7) ? 4 * 60_000 : RUN_MS_MAX,
    chatter: dice.random(0.8) ? 15 : 60,
    dyingMsMax: dice.random(0.7) ? 500 : dice.random(0.5) ? 10_000 : 50_000,
    drainMsMax: dice.random(0.5) ? undefined : dice.fraction() * 180_000,
  }
}

function drawTicket(dice: Random, earlier: readonly TicketPlan[]): TicketPlan {
  const at = dice.fraction() * CALM * 0.9
  const blocker = dice.random(0.15) && earlier.length > 0 ? dice.pick(earlier).id : undefined
  const moves = dice.random(0.2) ? list(1 + dice.below(3), () => at + dice.fraction() * (CALM - at)) : []
  return {
    id: `t${earlier.length + 1}`,
    at,
    blockedBy: blocker,
    priority: dice.pick([0, 1, 2, 3, 4] as const),
    moves: moves.sort((a, b) => a - b),
  }
}

function drawFaults(seed: number): Fault[] {
  const drawn = [...FAULTS.flatMap((kind) => drawKind(diceOf(seed, kind), kind)), ...encounter(seed)]
  drawn.sort((a, b) => a.at - b.at)
  return drawn.map((fault, at) => ({ ...fault, id: `f${at + 1}` }))
}

/** What brings a lease into a state that does not come about by itself. */
const WAYS: Readonly<Partial<Record<LeaseState, readonly [FaultKind, LeaseState]>>> = {
  unconfirmed: ['worker crash', 'offered'],
  adrift: ['worker crash', 'held'],
  cancelling: ['cancel', 'held'],
}

/** Each seed, in turn, arranges for one fault to meet one state: chance alone leaves some of them out for long. */
function encounter(seed: number): Fault[] {
  const dice = diceOf(seed, 'encounter')
  const { kind, state } = encountered(seed)
  const at = 5_000 + dice.fraction() * CALM * 0.5
  const way = WAYS[state]
  const led = way === undefined ? [] : [0, 1, 2].map((step) => step * 5 * 60_000)
  return [
    { ...drawFault(dice, kind), met: state, at },
    ...led.flatMap((ms) =>
      way === undefined ? [] : [{ ...drawFault(dice, way[0]), met: way[1], at: at + ms, ms: 5_000 }],
    ),
  ]
}

function encountered(seed: number): { readonly kind: FaultKind; readonly state: LeaseState } {
  const kind = FAULTS[seed % FAULTS.length] ?? 'host crash'
  const state = LEASE_STATES[Math.floor(seed / FAULTS.length) % LEASE_STATES.length] ?? 'held'
  return { kind, state }
}

function drawKind(dice: Random, kind: FaultKind): Fault[] {
  const roll = dice.fraction()
  const count = roll < 0.68 ? 0 : roll < 0.92 ? 1 + dice.below(3) : 6 + dice.below(20)
  return list(count, () => drawFault(dice, kind))
}

function drawFault(dice: Random, kind: FaultKind): Fault {
  return {
    id: '',
    kind,
    at: 5_000 + dice.fraction() * (CALM - 10_000),
    met: dice.random(0.5) ? dice.pick(LEASE_STATES) : undefined,
    target: dice.fraction(),
    ms: drawMs(dice, kind),
    size: dice.fraction(),
  }
}

/** From milliseconds to minutes, each size as likely as the next. */
const spread = (dice: Random, from: number, to: number): number => from * (to / from) ** dice.fraction()

function drawMs(dice: Random, kind: FaultKind): number {
  if (kind === 'host pause' || kind === 'worker pause') return spread(dice, 1_000, 400_000)
  if (kind === 'silence') return spread(dice, 2_000, 600_000)
  if (/disk (full|slow)/.test(kind)) return spread(dice, 500, 300_000)
  if (kind === 'slow line' || kind === 'hostile line') return spread(dice, 5_000, 400_000)
  return spread(dice, 200, 300_000)
}

const list = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))

// ---- leaving out ---------------------------------------------------------------------------------------------------

/** The same story with nothing in it but those named: faults, workers, tickets, visits. */
export function only(plan: Plan, names: ReadonlySet<string>): Plan {
  const kept = <T extends { readonly id: string }>(all: readonly T[]) => all.filter(({ id }) => names.has(id))
  return {
    ...plan,
    workers: kept(plan.workers),
    tickets: kept(plan.tickets),
    faults: kept(plan.faults),
    visits: kept(plan.visits),
  }
}

/** Everything that could be left out. */
export const namesIn = ({ faults, workers, tickets, visits }: Plan): string[] =>
  [...faults, ...workers, ...tickets, ...visits].map(({ id }) => id)

/** For people: what this seed goes through. */
export function describePlan({ seed, workers, tickets, faults, visits }: Plan): string {
  const lines = faults.map(
    ({ id, kind, at, met, ms, size, target }) =>
      `  ${id} ${clockText(at)} ${kind}${met === undefined ? '' : ` when a lease becomes ${met}`}` +
      ` (${(ms / 1000).toFixed(1)} s, size ${size.toFixed(2)}, target ${target.toFixed(2)})`,
  )
  const crew = workers.map(
    (worker) =>
      `  ${worker.id} (${worker.is}) from ${clockText(worker.at)}, ${worker.concurrency} at once${
        worker.is === 'daemon' ? '' : `, keeps ${worker.bufferMax} frames, ${worker.afterCrash}`
      }`,
  )
  const work = tickets.map(
    ({ id, at, blockedBy }) =>
      `  ${id} from ${clockText(at)}${blockedBy === undefined ? '' : `, behind ${blockedBy}`}`,
  )
  const people = visits.map(
    ({ id, deeds }) => `  ${id} ${deeds.map(({ does, at }) => `${clockText(at)} ${does}`).join(', ')}`,
  )
  return [`seed ${seed}`, ...crew, ...work, ...people, ...lines].join('\n')
}

export function clockText(ms: number): string {
  const seconds = ms / 1000
  const part = (value: number) => String(Math.floor(value)).padStart(2, '0')
  return `${part(seconds / 3600)}:${part((seconds / 60) % 60)}:${(seconds % 60).toFixed(3).padStart(6, '0')}`
}
