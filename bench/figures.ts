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
  /** Compares the bound with `ours` beside `raw`, by wall time or by processor time, or with `ours` alone. */
  readonly of: 'ratio' | 'processor ratio' | 'ours'
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
  /** What the figure costs, beside the wall time that it takes. */
  readonly processor?: ProcessorCosts
  readonly target?: Target
  readonly rounds: number
  readonly notes: readonly string[]
}

/** Processor time of all threads for each unit of work, in microseconds. */
export interface ProcessorCosts {
  readonly ours: Spread
  readonly raw: Spread
  /** Has the direction of the figure's own ratio: `raw` divided by `ours` where that one compares rates. */
  readonly ratio: Spread
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

/** What a contestant did in a round, and its cost for each unit of work where the system reports it. */
export interface Measurement {
  readonly value: number
  readonly cpuMicros: number
}

/** A figure of the product beside the raw parts with the processor time of both, with one pair per round. */
export function compareMeasurements(
  label: FigureLabel,
  rounds: readonly { readonly ours: Measurement; readonly raw: Measurement }[],
  slicesPerRound = 1,
): Figure {
  const pairs = (part: keyof Measurement) =>
    groupIntoRounds(
      rounds.map(({ ours, raw }) => ({ ours: ours[part], raw: raw[part] })),
      slicesPerRound,
    )
  return withProcessorCosts(compareFigure(label, pairs('value')), pairs('cpuMicros'))
}

/** Adds the processor time to a figure whose own rounds are other ones: microseconds for each unit of work. */
export function withProcessorCosts(figure: Figure, pairs: readonly Pair[]): Figure {
  return { ...figure, ...processorCosts(figure.unit, pairs) }
}

function processorCosts(unit: string, pairs: readonly Pair[]): { processor?: ProcessorCosts } {
  if (pairs.some(({ ours, raw }) => !Number.isFinite(ours / raw))) return {}
  const isRate = unit.endsWith('/s') || unit.endsWith('a second')
  const processor = {
    ours: spread(pairs.map(({ ours }) => ours)),
    raw: spread(pairs.map(({ raw }) => raw)),
    ratio: spread(pairs.map(({ ours, raw }) => (isRate ? raw / ours : ours / raw))),
  }
  return { processor }
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

export function verdict(figure: Figure): BenchVerdict {
  const { target } = figure
  if (target === undefined) return 'no target'
  const judged = judgedSpread(figure, target)
  if (judged === undefined) throw new Error('a target for a ratio needs something to compare with')
  return meets(target, judged.median) ? 'pass' : 'below'
}

/** Whether single rounds would have given the opposite verdict, which makes it unreliable. */
export function isClose(figure: Figure): boolean {
  const { target } = figure
  const judged = target === undefined ? undefined : judgedSpread(figure, target)
  if (target === undefined || judged === undefined) return false
  return meets(target, judged.min) !== meets(target, judged.max)
}

function judgedSpread({ ours, ratio, processor }: Figure, { of }: Target): Spread | undefined {
  if (of === 'ours') return ours
  return of === 'ratio' ? ratio : processor?.ratio
}

function meets({ is, bound }: Target, value: number): boolean {
  return is === 'at least' ? value >= bound : value <= bound
}
