import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  addLostRange,
  INITIAL_WATERMARK,
  judgeFrame,
  judgeLostRange,
  type LeaseWatermark,
  LOST_RANGES_MAX,
} from '../../../core/lease/watermark.ts'

const RUNS = Number(process.env.LEDGER_RUNS ?? 2_000)

describe('a frame is', () => {
  test.each([
    [0, 1, 'next'],
    [7, 8, 'next'],
    [7, 7, 'repeat'],
    [7, 1, 'repeat'],
    [7, 9, 'early'],
    [0, 2, 'early'],
  ] as const)('with the watermark at %i, number %i: %s', (mark, seq, verdict) => {
    expect(judgeFrame(mark, seq)).toBe(verdict)
  })
})

describe('a lost range is', () => {
  test.each([
    ['news when it begins right behind the mark', 4, 5, 9, [5, 9]],
    ['news as far as it is above the mark', 4, 2, 9, [5, 9]],
    ['a repeat when all of it is behind the mark', 4, 1, 4, 'repeat'],
    ['early when something is missing before it', 4, 6, 9, 'early'],
    ['news from the very first number', 0, 1, 1, [1, 1]],
  ] as const)('%s', (_what, mark, from, to, verdict) => {
    expect(judgeLostRange(mark, from, to)).toEqual(verdict)
  })

  test('merged with the range before it when they touch', () => {
    expect(addLostRange({ mark: 3, lost: [[2, 3]] }, [4, 6])).toEqual({ mark: 6, lost: [[2, 6]] })
    expect(addLostRange({ mark: 4, lost: [[2, 3]] }, [5, 6])).toEqual({
      mark: 6,
      lost: [
        [2, 3],
        [5, 6],
      ],
    })
  })

  test('merged into the last one when there are too many', () => {
    let at: LeaseWatermark = INITIAL_WATERMARK
    for (let n = 0; n < LOST_RANGES_MAX + 10; n++) at = addLostRange(at, [2 * n + 1, 2 * n + 1])
    expect(at.lost).toHaveLength(LOST_RANGES_MAX)
    expect(at.lost.at(-1)).toEqual([2 * LOST_RANGES_MAX - 1, at.mark])
  })
})

// ---- against a naive model -----------------------------------------------------------------------------------------

type Report = { readonly seq: number } | { readonly from: number; readonly to: number }

const anyReport: fc.Arbitrary<Report> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ seq: fc.integer({ min: 1, max: 40 }) }) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 6 }))
      .map(([from, more]) => ({ from, to: from + more })),
  },
)

/** A model in a plain table: what happened to each number. */
class Naive {
  readonly fate = new Map<number, 'applied' | 'lost'>()

  get mark(): number {
    let mark = 0
    while (this.fate.has(mark + 1)) mark++
    return mark
  }

  apply(report: Report): void {
    const next = this.mark + 1
    if ('seq' in report) {
      if (report.seq === next) this.fate.set(next, 'applied')
      return
    }
    if (report.from > next) return
    for (let seq = next; seq <= report.to; seq++) this.fate.set(seq, 'lost')
  }

  lost(): number[] {
    return [...this.fate].filter(([, fate]) => fate === 'lost').map(([seq]) => seq)
  }
}

/** The watermark as it is used: judge, then update. */
function apply(at: LeaseWatermark, report: Report): LeaseWatermark {
  if ('seq' in report)
    return judgeFrame(at.mark, report.seq) === 'next' ? { mark: report.seq, lost: at.lost } : at
  const lost = judgeLostRange(at.mark, report.from, report.to)
  return typeof lost === 'string' ? at : addLostRange(at, lost)
}

const numbersIn = (lost: LeaseWatermark['lost']): number[] =>
  lost.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => from + at))

test(`for any order of reports, the watermark agrees with a table of all numbers (${RUNS} orders)`, () => {
  fc.assert(
    fc.property(fc.array(anyReport, { maxLength: 120 }), (all) => {
      const naive = new Naive()
      let at: LeaseWatermark = INITIAL_WATERMARK
      for (const report of all) {
        const before = at
        naive.apply(report)
        at = apply(at, report)
        expect(at.mark).toBe(naive.mark)
        expect(at.mark).toBeGreaterThanOrEqual(before.mark)
        expect(numbersIn(at.lost)).toEqual(naive.lost())
      }
    }),
    { numRuns: RUNS },
  )
}, 600_000)
