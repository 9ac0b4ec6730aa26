/** The bench compares figures with their targets and prints a table of them. */
import { describe, expect, test } from '@jest/globals'
import { measureInTurn, measureWhenSteady } from '../../../bench/entry.ts'
import {
  absoluteFigure,
  compareFigure,
  compareMeasurements,
  groupIntoRounds,
  isClose,
  spread,
  type Target,
  verdict,
  withProcessorCosts,
} from '../../../bench/figures.ts'
import { amount, table } from '../../../bench/table.ts'
import { areSteady } from '../../../bench/warm-up.ts'

const atLeast = (bound: number): Target => ({ of: 'ratio', is: 'at least', bound })
const atMost = (bound: number): Target => ({ of: 'ours', is: 'at most', bound })

test.each([
  { of: [5], median: 5, min: 5, max: 5 },
  { of: [9, 1, 4], median: 4, min: 1, max: 9 },
  { of: [4, 100, 2, 6], median: 5, min: 2, max: 100 },
])('the spread of $of has the median $median', ({ of, ...expected }) => {
  expect(spread(of)).toEqual(expected)
})

test('a spread of no measurements is an error', () => {
  expect(() => spread([])).toThrow('nothing was measured')
})

test('the ratio is the median of the rounds’ ratios, so a slow round does not change it', () => {
  const pairs = [
    { ours: 80, raw: 100 },
    { ours: 8, raw: 10 },
    { ours: 88, raw: 110 },
  ]
  expect(compareFigure({ name: 'a', unit: 'b' }, pairs).ratio).toEqual({ median: 0.8, min: 0.8, max: 0.8 })
})

test('consecutive slices are joined into rounds by their mean', () => {
  const slices = [1, 3, 5, 7].map((ours) => ({ ours, raw: ours * 2 }))
  expect(groupIntoRounds(slices, 2)).toEqual([
    { ours: 2, raw: 4 },
    { ours: 6, raw: 12 },
  ])
})

describe('a verdict', () => {
  const pairs = [
    { ours: 60, raw: 100 },
    { ours: 80, raw: 100 },
    { ours: 90, raw: 100 },
  ]

  test.each([
    { bound: 0.5, expected: 'pass', close: false },
    { bound: 0.7, expected: 'pass', close: true },
    { bound: 0.85, expected: 'below', close: true },
    { bound: 0.95, expected: 'below', close: false },
  ])('for at least $bound is $expected', ({ bound, expected, close }) => {
    const figure = compareFigure({ name: 'a', unit: 'b', target: atLeast(bound) }, pairs)
    expect([verdict(figure), isClose(figure)]).toEqual([expected, close])
  })

  test('compares the product’s own figure with an absolute target', () => {
    expect(verdict(absoluteFigure({ name: 'a', unit: 'MiB', target: atMost(120) }, [119, 120]))).toBe('pass')
    expect(verdict(absoluteFigure({ name: 'a', unit: 'MiB', target: atMost(120) }, [121]))).toBe('below')
  })

  test('needs a target', () => {
    expect(verdict(absoluteFigure({ name: 'a', unit: 'ms' }, [1]))).toBe('no target')
  })
})

test('contestants are measured in turn, and the first round is discarded', async () => {
  const calls: string[] = []
  let a = 0
  const rounds = await measureInTurn(2, {
    a: async () => {
      calls.push('a')
      return a++
    },
    b: async () => calls.push('b'),
  })
  expect(calls.join('')).toBe('ababab')
  expect(rounds).toEqual([
    { a: 1, b: 4 },
    { a: 2, b: 6 },
  ])
})

describe('processor time beside wall time', () => {
  const rounds = [{ ours: { value: 50, cpuMicros: 20 }, raw: { value: 100, cpuMicros: 15 } }]

  test('has a ratio in the direction of the figure’s own ratio', () => {
    const cpuRatio = (unit: string) =>
      compareMeasurements({ name: 'a', unit }, rounds).processor?.ratio.median
    expect([cpuRatio('a second'), cpuRatio('requests/s')]).toEqual([0.75, 0.75])
    expect(cpuRatio('ms')).toBeCloseTo(4 / 3)
  })

  test('is joined into rounds like the figure', () => {
    const figure = compareMeasurements({ name: 'a', unit: 'ms' }, [...rounds, ...rounds], 2)
    expect(figure).toMatchObject({ rounds: 1, processor: { ours: { median: 20 }, raw: { median: 15 } } })
  })

  test('is added to a figure that has other rounds', () => {
    const figure = absoluteFigure({ name: 'a', unit: 'ms' }, [1, 2, 3])
    const withCosts = withProcessorCosts(figure, [{ ours: 30, raw: 15 }])
    expect(withCosts).toMatchObject({ rounds: 3, processor: { ours: { median: 30 }, ratio: { median: 2 } } })
  })

  test('is left out where the system does not report it', () => {
    const unknown = [{ ours: { value: 50, cpuMicros: Number.NaN }, raw: { value: 100, cpuMicros: 1 } }]
    expect(compareMeasurements({ name: 'a', unit: 'ms' }, unknown)).not.toHaveProperty('processor')
  })

  test('decides where the target asks for it', () => {
    const target = { of: 'processor ratio', is: 'at least', bound: 0.7 } as const
    const figure = compareMeasurements({ name: 'a', unit: 'a second', target }, rounds)
    expect(verdict(figure)).toBe('pass')
    expect(table([figure])).toContain('20.0/15.0 µs, 0.75× (0.75×–0.75×)  ≥ 0.70× processor  pass')
  })
})

describe('a warm-up', () => {
  const measure = async (of: readonly number[]) => {
    const values = of.map((cpuMicros) => ({ value: 1, cpuMicros }))
    let calls = 0
    const ours = async () => values[calls++] ?? { value: 1, cpuMicros: 0 }
    const rounds = await measureWhenSteady(1, { ours })
    return rounds.map((round) => round.ours.cpuMicros)
  }

  test('ends with the first two rounds in a row that hardly differ', async () => {
    expect(await measure([100, 50, 46, 45])).toEqual([45])
    expect(await measure([100, 99, 98])).toEqual([98])
  })

  test('ends after five rounds that all differ', async () => {
    expect(await measure([64, 32, 16, 8, 4, 2])).toEqual([2])
  })

  test('compares what was done where processor time is unknown, and waits for every contestant', () => {
    const done = (value: number) => ({ value, cpuMicros: Number.NaN })
    expect(areSteady([done(10)], [done(9.5)])).toBe(true)
    expect(areSteady([done(10), done(10)], [done(10), done(8)])).toBe(false)
  })
})

test.each([
  [1_234_567.8, '1,234,568'],
  [123.4, '123'],
  [12.34, '12.3'],
  [1.234, '1.23'],
  [0, '0.00'],
])('%d is written as %s', (value, text) => {
  expect(amount(value)).toBe(text)
})

test('the table aligns numbers right and words left, with notes below their figure', () => {
  const figures = [
    compareFigure({ name: 'fast', unit: 'a second', target: atLeast(0.7), notes: ['by hand'] }, [
      { ours: 70_000, raw: 90_000 },
    ]),
    absoluteFigure({ name: 'small', unit: 'MiB', target: atMost(120) }, [130]),
    absoluteFigure({ name: 'other', unit: 'ms' }, [3]),
  ]
  expect(table(figures).split('\n')).toEqual([
    'figure    ours     raw  unit          ratio (min–max)  by processor time  target     verdict',
    '──────  ──────  ──────  ────────  ───────────────────  ─────────────────  ─────────  ───────',
    'fast    70,000  90,000  a second  0.78× (0.78×–0.78×)                     ≥ 0.70×    pass',
    '    by hand',
    'small      130          MiB                 (130–130)                     ≤ 120 MiB  below',
    'other     3.00          ms                (3.00–3.00)',
  ])
})
