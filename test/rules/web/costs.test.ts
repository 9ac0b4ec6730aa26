/** The page of costs: days, series, rows, figures, and the exported table. */
import { expect, test } from '@jest/globals'
import type { SpentCost } from '../../../client/cost-sums.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { Run } from '../../../protocol/run.ts'
import {
  completedFigures,
  costCsv,
  daysUntil,
  mergedFigures,
  reportOf,
  shortUsd,
} from '../../../web/dashboard/costs/cost-report.ts'
import { rangeOfDays, shortDay } from '../../../web/text/days.ts'
import { SampleRecords } from '../../support/sample-records.ts'

/** Local noon, so that the zone of the machine does not move the day. */
const NOON = new Date(2026, 10, 22, 12).getTime()
const DAY_MS = 24 * 60 * 60_000
const sample = new SampleRecords(NOON)
const DAYS = daysUntil(NOON, 3)

function cost(at: number, given: Partial<CostEntry> = {}, run: Partial<Run> = {}): SpentCost {
  const entry: CostEntry = {
    label: 'run',
    provider: 'agentA',
    model: 'sonnet',
    inputTokens: 100,
    outputTokens: 10,
    cacheReadTokens: 300,
    cacheWriteTokens: 0,
    estimated: false,
    costUsd: 1,
    ...given,
  }
  const costTotals = { ...entry, byModel: [] }
  return { run: sample.run(at, 'completed', { costs: [entry], costTotals, ...run }), entry, at: NOON }
}

const daysAgo = (spent: SpentCost, days: number): SpentCost => ({ ...spent, at: NOON - days * DAY_MS })

test('the days of a range end today, and empty ones are there', () => {
  expect(DAYS).toEqual(['2026-11-20', '2026-11-21', '2026-11-22'])
  const { byDay } = reportOf([daysAgo(cost(1), 2), cost(2), cost(3)], 'agent', DAYS)
  expect(byDay.map(({ key, runs, costUsd }) => [key, runs, costUsd])).toEqual([
    ['2026-11-20', 1, 1],
    ['2026-11-21', 0, undefined],
    ['2026-11-22', 2, 2],
  ])
  expect(rangeOfDays('2026-11-09', '2026-11-22')).toBe('9 to 22 November')
  expect(rangeOfDays('2026-10-30', '2026-11-12')).toBe('30 October to 12 November')
  expect(shortDay('2026-11-09')).toBe('Mon 9')
})

test('billed series come before estimated ones, and small groups become one', () => {
  const models = ['a', 'b', 'c', 'd', 'e']
  const spent = models.map((model, at) =>
    daysAgo(cost(at, { model, costUsd: 10 - at, estimated: model === 'a' }), at % 3),
  )
  const { series, rows } = reportOf(spent, 'model', DAYS)
  expect(series.map(({ label, isEstimated }) => [label, isEstimated])).toEqual([
    ['b', false],
    ['c', false],
    ['Other', false],
    ['a', true],
  ])
  expect(series.flatMap(({ amounts }) => amounts).reduce((sum, amount) => sum + amount, 0)).toBe(40)
  expect(rows.map(({ key }) => key)).toEqual(models)
})

test('a row has its share and the dollars of a run, and what is unknown stays unknown', () => {
  const { costUsd: _, ...unpriced } = cost(3, { provider: 'agentB' }).entry
  const spent = [cost(1, { costUsd: 3 }), cost(2), { ...cost(3), entry: unpriced }]
  const { rows, total, unpricedRuns, perRunUsd } = reportOf(spent, 'agent', DAYS)
  expect(rows.map(({ label, share, perRunUsd: each }) => [label, share, each])).toEqual([
    ['Claude Code', 1, 2],
    ['Codex', undefined, undefined],
  ])
  expect([total.runs, total.costUsd, unpricedRuns, perRunUsd]).toEqual([3, 4, 1, 2])
})

test('amounts of the scripted agent are marked as made up', () => {
  const { rows, madeUpUsd } = reportOf([cost(1, { source: 'example', costUsd: 0.5 })], 'agent', DAYS)
  expect([rows[0]?.isMadeUp, madeUpUsd]).toEqual([true, 0.5])
  const mixed = reportOf([cost(1, { source: 'example' }), cost(2)], 'agent', DAYS)
  expect([mixed.rows[0]?.isMadeUp, mixed.madeUpUsd]).toEqual([false, 1])
})

test('the dearest runs are ordered by what they cost in the range', () => {
  const spent = [1, 2, 3, 4, 5, 6, 7].map((at) => cost(at, { costUsd: at }))
  const { dearest } = reportOf(spent, 'agent', DAYS)
  expect(dearest.map(({ sum }) => sum.costUsd)).toEqual([7, 6, 5, 4, 3])
})

test('a completed run costs the median, and most cost less than the high figure', () => {
  const spent = [1, 2, 3, 4, 100].map((costUsd, at) => cost(at, { costUsd }, { finishedAt: sample.ago(5) }))
  const failed = cost(9, { costUsd: 50 }, { status: 'failed' })
  const since = NOON - DAY_MS
  expect(completedFigures([...spent, failed], since)).toMatchObject({ completed: 5, medianUsd: 3 })
  expect(completedFigures(spent, since).highUsd).toBeGreaterThan(4)
  expect(completedFigures([failed], since)).toEqual({ completed: 0, hasEstimates: false })
})

test('a merged pull request costs all runs of its ticket', () => {
  const pull = { remote: 'acme/api', number: 7, branch: 'b', confirmed: true }
  const merged = cost(1, { costUsd: 2 }, { prState: 'merged', pull })
  const rerun: SpentCost = {
    ...cost(2, { costUsd: 4 }),
    run: { ...cost(2).run, ticket: merged.run.ticket },
  }
  expect(mergedFigures([merged, rerun, cost(3)])).toEqual({ merged: 1, averageUsd: 6, hasEstimates: false })
  expect(mergedFigures([cost(3)])).toEqual({ merged: 0, hasEstimates: false })
})

test('the exported table has a line for each day and group, and no formula', () => {
  const spent = [daysAgo(cost(1, { model: '=1+1,"x"' }), 1), cost(2, { estimated: true })]
  expect(costCsv(spent, 'model').split('\r\n')).toEqual([
    'day,model,runs,inputTokens,outputTokens,cacheReadTokens,cacheWriteTokens,costUsd,estimatedUsd',
    '2026-11-21,"\'=1+1,""x""",1,100,10,300,0,1,',
    '2026-11-22,sonnet,1,100,10,300,0,1,1',
    '',
  ])
})

test.each([
  [0, '$0'],
  [40, '$40'],
  [1_500, '$1.5 k'],
  [0.25, '$0.25'],
  [0.0042, '$0.0042'],
])('%d dollars in a chart are %s', (usd, text) => {
  expect(shortUsd(usd)).toBe(text)
})
