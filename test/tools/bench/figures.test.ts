/** The bench compares figures with their targets and prints a table of them. */
import { describe, expect, test } from '@jest/globals'
import { measureInTurn } from '../../../bench/entry.ts'
import {
  absoluteFigure,
  compareFigure,
  groupIntoRounds,
  isClose,
  spread,
  type Target,
  verdict,
} from '../../../bench/figures.ts'
import { amount, table } from '../../../bench/table.ts'

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
    'figure    ours     raw  unit          ratio (min–max)  target     verdict',
    '──────  ──────  ──────  ────────  ───────────────────  ─────────  ───────',
    'fast    70,000  90,000  a second  0.78× (0.78×–0.78×)  ≥ 0.70×    pass',
    '    by hand',
    'small      130          MiB                 (130–130)  ≤ 120 MiB  below',
    'other     3.00          ms                (3.00–3.00)',
  ])
})
