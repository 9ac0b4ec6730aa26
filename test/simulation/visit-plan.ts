/**
 * What people will do about runs that have ended, drawn before anything happens: a visit is one person at one run.
 *
 * Each visit is a walk through deeds in any order, at any pace: a terminal is opened, typed at, made larger, closed,
 * opened again, released while another looks on; the sandbox is discarded, the pull request talked about and followed
 * up. Some bring bad luck: the line to the worker breaks, or one of its ends sleeps or dies, while they sit there.
 * Shortly before the goals are judged nobody does anything, so that what was done has come to rest by then.
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
  /** How much, which one, or whether: from 0 to 1. */
  readonly size: number
}

export interface Visit {
  /** `p1`, `p2`, … */
  readonly id: string
  /** Which of the runs that have ended by then. */
  readonly target: number
  readonly actions: readonly VisitAction[]
}

/** How often each is done. */
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

/** Nobody does anything for as long as it takes to come to rest. */
const QUIET_MS = 60_000
const ACTIONS_MAX = 14
/** Every other comes to where somebody has just sat down. */
const JOINING_MS = 40_000
/** From one deed to the next, each size as likely as another. */
const PACE_MS = [30, 200_000] as const

/** @param judged when the goals are judged, in order; nothing happens after the last */
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
    // Some people are quick, and act before the last thing they did has come to anything.
    at += PACE_MS[0] * (PACE_MS[1] / PACE_MS[0]) ** random.fraction()
    const action = { kind: drawNext(random, actions.at(-1)?.kind), at, size: random.fraction() }
    if (!isQuietTime(at, judgedTimes)) actions.push(action)
  }
  return actions
}

/** Most come to look. Who has seen the host die may make sure of what it has forgotten. */
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
