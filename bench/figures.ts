/**
 * Summarises measurements and compares them with their targets.
 *
 * On shared cores and a virtual disk an absolute figure varies by a factor of two between runs; the ratio of two
 * things measured in turn does not. So nearly every target is a ratio. Each round gives one ratio, the median
 * counts, and smallest and largest show the noise.
 */

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export interface Target {
  /** Compares the bound with `ours` divided by `raw`, or with `ours` alone. */
  readonly of: 'ratio' | 'ours'
  readonly is: 'at least' | 'at most'
  readonly bound: number
}

export interface Figure {
  readonly name: string
  readonly unit: string
  readonly ours: Spread
  /** The comparison; absent where only the absolute figure has a meaning. */
  readonly raw?: Spread
  /** The spread of each round's ratio, not the ratio of the medians. */
  readonly ratio?: Spread
  readonly target?: Target
  readonly rounds: number
  readonly notes: readonly string[]
}

export type BenchVerdict = 'pass' | 'below' | 'no target'

export interface Pair {
  readonly ours: number
  readonly raw: number
}

export function spread(values: readonly number[]): Spread {
  if (values.length === 0) throw new Error('nothing was measured')
  const sorted = [...values].sort((a, b) => a - b)
  return { median: median(sorted), min: sorted[0] as number, max: sorted.at(-1) as number }
}

function median(sorted: readonly number[]): number {
  const middle = sorted.length >> 1
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/**
 * Joins slices that were measured in turn into rounds, so that a disturbance longer than a slice affects both sides
 * of a round. Slices have equal length, so a round's rate is their mean.
 */
export function groupIntoRounds(slices: readonly Pair[], perRound: number): Pair[] {
  const count = Math.floor(slices.length / perRound)
  const average = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length
  return Array.from({ length: count }, (_, at) => {
    const round = slices.slice(at * perRound, (at + 1) * perRound)
    return { ours: average(round.map(({ ours }) => ours)), raw: average(round.map(({ raw }) => raw)) }
  })
}

interface FigureLabel {
  readonly name: string
  readonly unit: string
  readonly target?: Target
  readonly notes?: readonly string[]
}

/** A figure of the product beside the raw parts, with one pair per round. */
export function compareFigure({ notes = [], ...label }: FigureLabel, pairs: readonly Pair[]): Figure {
  return {
    ...label,
    ours: spread(pairs.map(({ ours }) => ours)),
    raw: spread(pairs.map(({ raw }) => raw)),
    ratio: spread(pairs.map(({ ours, raw }) => ours / raw)),
    rounds: pairs.length,
    notes,
  }
}

/** A figure of the product alone. */
export function absoluteFigure({ notes = [], ...label }: FigureLabel, values: readonly number[]): Figure {
  return { ...label, ours: spread(values), rounds: values.length, notes }
}

export function verdict({ target, ratio, ours }: Figure): BenchVerdict {
  if (target === undefined) return 'no target'
  const spread = target.of === 'ratio' ? ratio : ours
  if (spread === undefined) throw new Error('a target for a ratio needs something to compare with')
  return meets(target, spread.median) ? 'pass' : 'below'
}

/** Whether single rounds would have given the opposite verdict, which makes it unreliable. */
export function isClose({ target, ratio, ours }: Figure): boolean {
  const spread = target?.of === 'ratio' ? ratio : ours
  if (target === undefined || spread === undefined) return false
  return meets(target, spread.min) !== meets(target, spread.max)
}

function meets({ is, bound }: Target, value: number): boolean {
  return is === 'at least' ? value >= bound : value <= bound
}
