/**
 * What people will do about runs that have ended, drawn before anything happens: a visit is one person at one run.
 *
 * Each visit is a walk through deeds in any order, at any pace: a terminal is opened, typed at, made larger, closed,
 * opened again, released while another looks on; the sandbox is discarded, the pull request talked about and followed
 * up. Some bring bad luck: the line to the worker breaks, or one of its ends sleeps or dies, while they sit there.
 * Shortly before the goals are judged nobody does anything, so that what was done has come to rest by then.
 */
import type { Random } from '../support/random.ts'

export const DEEDS = [
  'resume',
  'attach',
  'type',
  'resize',
  'leave the session',
  'detach',
  'release',
  'discard',
  'follow up',
  'comment',
  'turn the pull request',
  'break the line',
  'kill the worker',
  'kill the host',
  'put the host to sleep',
] as const
export type Doing = (typeof DEEDS)[number]

export interface Deed {
  readonly does: Doing
  readonly at: number
  /** How much, which one, or whether: from 0 to 1. */
  readonly size: number
}

export interface Visit {
  /** `p1`, `p2`, … */
  readonly id: string
  /** Which of the runs that have ended by then. */
  readonly target: number
  readonly deeds: readonly Deed[]
}

/** How often each is done. */
const WEIGHTS: Readonly<Record<Doing, number>> = {
  resume: 2,
  attach: 5,
  type: 6,
  resize: 1,
  'leave the session': 1,
  detach: 4,
  release: 2,
  discard: 0.4,
  'follow up': 2,
  comment: 1,
  'turn the pull request': 0.3,
  'break the line': 3,
  'kill the worker': 0.4,
  'kill the host': 0.6,
  'put the host to sleep': 0.8,
}
const AFTERMATH: readonly Doing[] = ['attach', 'detach', 'release', 'discard', 'follow up']
const TOTAL = DEEDS.reduce((sum, doing) => sum + WEIGHTS[doing], 0)

/** Nobody does anything for as long as it takes to come to rest. */
const QUIET_MS = 60_000
const DEEDS_MAX = 14
/** Every other comes to where somebody has just sat down. */
const JOINING_MS = 40_000
/** From one deed to the next, each size as likely as another. */
const PACE_MS = [30, 200_000] as const

/** @param judged when the goals are judged, in order; nothing happens after the last */
export function drawVisits(dice: Random, from: number, judged: readonly number[]): Visit[] {
  const roll = dice.fraction()
  const count = roll < 0.6 ? 0 : roll < 0.95 ? 1 + dice.below(6) : 8 + dice.below(12)
  const until = judged.at(-1) ?? from
  let [target, at] = [dice.fraction(), from]
  return Array.from({ length: count }, (_, index) => {
    const joins = index > 0 && dice.random(0.5)
    if (!joins) target = dice.fraction()
    at = joins ? at + dice.fraction() * JOINING_MS : from + dice.fraction() * (until - from)
    return { id: `p${index + 1}`, target, deeds: drawDeeds(dice, at, judged) }
  })
}

function drawDeeds(dice: Random, from: number, judged: readonly number[]): Deed[] {
  const deeds: Deed[] = []
  let at = from
  for (let left = 2 + dice.below(DEEDS_MAX); left > 0; left--) {
    // Some people are quick, and act before the last thing they did has come to anything.
    at += PACE_MS[0] * (PACE_MS[1] / PACE_MS[0]) ** dice.fraction()
    const deed = { does: drawNext(dice, deeds.at(-1)?.does), at, size: dice.fraction() }
    if (!isQuiet(at, judged)) deeds.push(deed)
  }
  return deeds
}

/** Most come to look. Who has seen the host die may make sure of what it has forgotten. */
function drawNext(dice: Random, last: Doing | undefined): Doing {
  if (last === undefined && dice.random(0.7)) return 'attach'
  if (last === 'kill the host' && dice.random(0.7)) return dice.pick(AFTERMATH)
  return drawDoing(dice)
}

function drawDoing(dice: Random): Doing {
  let rest = dice.fraction() * TOTAL
  for (const doing of DEEDS) {
    rest -= WEIGHTS[doing]
    if (rest < 0) return doing
  }
  return 'attach'
}

const isQuiet = (at: number, judged: readonly number[]): boolean =>
  judged.some((judgedAt) => at > judgedAt - QUIET_MS && at <= judgedAt) || at > (judged.at(-1) ?? 0)
