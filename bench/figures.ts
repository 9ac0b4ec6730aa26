/**
 * What a measurement says, and whether that is what we want.
 *
 * On shared cores and a virtual disk an absolute figure moves by a factor of two from run to run; the ratio of two
 * things measured in turn does not. So nearly every target is a ratio: one a round, the median counts, and the
 * smallest and largest stand beside it so that a reader can see how much of it is noise.
 */

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export interface Target {
  /** What is compared with the bound: ours by raw, or ours alone. */
  readonly of: 'ratio' | 'ours'
  readonly is: 'at least' | 'at most'
  readonly bound: number
}

export interface Figure {
  readonly name: string
  readonly unit: string
  readonly ours: Spread
  /** What ours is measured against; absent where only the absolute figure means something. */
  readonly raw?: Spread
  /** Of the ratios of each round, not the ratio of the medians. */
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
 * Rounds out of slices that took turns: what disturbs the machine for longer than a slice then disturbs both sides of
 * a round alike. Slices are of equal length, so a round's rate is the mean of theirs.
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

/** Ours beside raw, one pair a round. */
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

/** Ours alone. */
export function absoluteFigure({ notes = [], ...label }: FigureLabel, values: readonly number[]): Figure {
  return { ...label, ours: spread(values), rounds: values.length, notes }
}

export function verdict({ target, ratio, ours }: Figure): BenchVerdict {
  if (target === undefined) return 'no target'
  const spread = target.of === 'ratio' ? ratio : ours
  if (spread === undefined) throw new Error('a target for a ratio needs something to compare with')
  return meets(target, spread.median) ? 'pass' : 'below'
}

/** Whether some rounds alone would have said the opposite: then the verdict is worth little. */
export function isClose({ target, ratio, ours }: Figure): boolean {
  const spread = target?.of === 'ratio' ? ratio : ours
  if (target === undefined || spread === undefined) return false
  return meets(target, spread.min) !== meets(target, spread.max)
}

function meets({ is, bound }: Target, value: number): boolean {
  return is === 'at least' ? value >= bound : value <= bound
}
