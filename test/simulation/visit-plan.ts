/**
 * Draws what people will do with ended runs, before anything happens: a visit is one person at one run.
 *
 * A visit is a random sequence of actions at any pace: open, use, resize and close terminals, release or discard
 * the sandbox, comment on the pull request, request a follow-up. Some actions break the connection, or pause or
 * crash one of its ends. Before the goals are judged there is a quiet time, so that all effects have settled.
 */
import type { Random } from '../support/random.ts'

export const VISIT_ACTIONS = [
  'resume',
  'attach',
  'type',
  'resize',
  'end the session',
  'detach',
  'release',
  'discard',
  'follow up',
  'comment',
  'toggle the pull request',
  'break the connection',
  'crash the worker',
  'crash the host',
  'pause the host',
] as const
export type VisitActionKind = (typeof VISIT_ACTIONS)[number]

export interface VisitAction {
  readonly kind: VisitActionKind
  readonly at: number
  /** Strength, choice or probability, from 0 to 1. */
  readonly size: number
}

export interface Visit {
  /** `p1`, `p2`, … */
  readonly id: string
  /** Chooses among the runs that have ended by then. */
  readonly target: number
  readonly actions: readonly VisitAction[]
}

/** Relative frequency of each action. */
const WEIGHTS: Readonly<Record<VisitActionKind, number>> = {
  resume: 2,
  attach: 5,
  type: 6,
  resize: 1,
  'end the session': 1,
  detach: 4,
  release: 2,
  discard: 0.4,
  'follow up': 2,
  comment: 1,
  'toggle the pull request': 0.3,
  'break the connection': 3,
  'crash the worker': 0.4,
  'crash the host': 0.6,
  'pause the host': 0.8,
}
const ACTIONS_AFTER_HOST_CRASH: readonly VisitActionKind[] = [
  'attach',
  'detach',
  'release',
  'discard',
  'follow up',
]
const WEIGHT_TOTAL = VISIT_ACTIONS.reduce((sum, kind) => sum + WEIGHTS[kind], 0)

/** Time without actions before the goals are judged: longer than the host waits for a boot, on the slowest clock. */
const QUIET_MS = 65_000
const ACTIONS_MAX = 14
/** Every second person joins the previous one at the same run within this time. */
const JOINING_MS = 40_000
/** Pause between two actions: from, to; each order of magnitude equally likely. */
const PACE_MS = [30, 200_000] as const

/** @param judged times at which the goals are judged, in order; no action follows the last */
export function drawVisits(random: Random, from: number, judgedTimes: readonly number[]): Visit[] {
  const roll = random.fraction()
  const count = roll < 0.6 ? 0 : roll < 0.95 ? 1 + random.below(6) : 8 + random.below(12)
  const until = judgedTimes.at(-1) ?? from
  let [target, at] = [random.fraction(), from]
  return Array.from({ length: count }, (_, index) => {
    const joins = index > 0 && random.chance(0.5)
    if (!joins) target = random.fraction()
    at = joins ? at + random.fraction() * JOINING_MS : from + random.fraction() * (until - from)
    return { id: `p${index + 1}`, target, actions: drawActions(random, at, judgedTimes) }
  })
}

function drawActions(random: Random, from: number, judgedTimes: readonly number[]): VisitAction[] {
  const actions: VisitAction[] = []
  let at = from
  for (let left = 2 + random.below(ACTIONS_MAX); left > 0; left--) {
    // Some people act before their previous action has had an effect.
    at += PACE_MS[0] * (PACE_MS[1] / PACE_MS[0]) ** random.fraction()
    const action = { kind: drawNext(random, actions.at(-1)?.kind), at, size: random.fraction() }
    if (!isQuietTime(at, judgedTimes)) actions.push(action)
  }
  return actions
}

/** Most visits begin with `attach`; after a host crash a person often repeats what the host may have forgotten. */
function drawNext(random: Random, last: VisitActionKind | undefined): VisitActionKind {
  if (last === undefined && random.chance(0.7)) return 'attach'
  if (last === 'crash the host' && random.chance(0.7)) return random.pick(ACTIONS_AFTER_HOST_CRASH)
  return drawWeighted(random)
}

function drawWeighted(random: Random): VisitActionKind {
  let rest = random.fraction() * WEIGHT_TOTAL
  for (const kind of VISIT_ACTIONS) {
    rest -= WEIGHTS[kind]
    if (rest < 0) return kind
  }
  return 'attach'
}

const isQuietTime = (at: number, judgedTimes: readonly number[]): boolean =>
  judgedTimes.some((judgedAt) => at > judgedAt - QUIET_MS && at <= judgedAt) || at > (judgedTimes.at(-1) ?? 0)
