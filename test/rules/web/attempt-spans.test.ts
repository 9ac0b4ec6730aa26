/** The attempts of a run as parts of its log. */
import { expect, test } from '@jest/globals'
import { RunLog } from '../../../client/run-log.ts'
import type { RunEvent, RunStatus } from '../../../protocol/run.ts'
import {
  attemptSource,
  attemptSpans,
  isSpanEvent,
  type SpanEvent,
} from '../../../web/dashboard/attempts/attempt-spans.ts'
import { until } from '../../support/until.ts'

const head = (index: number) => ({ runId: 'run-1', index, at: new Date(index * 1000).toISOString() })
const change = (index: number, to: RunStatus, reason?: string): SpanEvent => ({
  ...head(index),
  type: 'status',
  to,
  ...(reason === undefined ? {} : { reason }),
})
const cost = (index: number, costUsd: number): SpanEvent => ({
  ...head(index),
  type: 'cost',
  entry: {
    label: 'run',
    provider: 'agentA',
    inputTokens: 1,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    costUsd,
    estimated: false,
  },
})

test('an attempt begins when the run is queued again, and has its end, reason and costs', () => {
  const spans = attemptSpans([
    change(0, 'queued'),
    change(1, 'preparing'),
    change(2, 'running'),
    cost(3, 0.5),
    change(4, 'queued', 'interrupted: the lease was lost'),
    change(5, 'preparing'),
    change(6, 'failed', 'setup failed'),
    cost(7, 0.25),
    change(9, 'queued', 'retried'),
    change(10, 'queued', 'still waiting'),
    change(11, 'preparing'),
  ])
  expect(
    spans.map(({ first, next, status, reason, ended, costs }) => ({
      log: [first, next],
      end: [status, reason, ended],
      costs: costs.map(({ costUsd }) => costUsd),
    })),
  ).toEqual([
    { log: [0, 4], end: ['running', 'interrupted: the lease was lost', head(4).at], costs: [0.5] },
    { log: [4, 9], end: ['failed', 'setup failed', head(6).at], costs: [0.25] },
    { log: [9, undefined], end: ['preparing', undefined, undefined], costs: [] },
  ])
})

test('the tries to publish the work of an attempt belong to it, until its agent is asked again', () => {
  const reason = 'publishing again at 2026-01-01T00:00:00.000Z: refused'
  const tried = [
    change(0, 'queued'),
    change(1, 'running'),
    change(2, 'queued', reason),
    change(3, 'preparing'),
    change(4, 'queued', reason),
  ]
  expect(attemptSpans(tried)).toMatchObject([{ first: 0, next: undefined, status: 'queued', reason }])
  const asked = attemptSpans([...tried, change(5, 'preparing'), change(6, 'running')])
  expect(asked.map(({ first, next }) => [first, next])).toEqual([
    [0, 4],
    [4, undefined],
  ])
})

test('the log of an attempt has its events only, also where they end within a page', async () => {
  const all = Array.from({ length: 5_000 }, (_, index): RunEvent => {
    if (index === 1_200 || index === 3_700) return change(index, 'queued')
    if (index === 1_201) return change(index, 'running')
    return { ...head(index), type: 'log', stream: 'stdout', text: `${index}` }
  })
  const [, second] = attemptSpans([change(0, 'running'), ...all.filter(isSpanEvent)])
  if (second === undefined) throw new Error('there is no second attempt')
  const source = attemptSource(
    {
      async *readEvents({ tail, before = all.length, limit = 0 }) {
        yield* tail === undefined ? all.slice(Math.max(0, before - limit), before) : all.slice(-tail)
      },
      watch: () => {
        throw new Error('an attempt that ended does not grow')
      },
    },
    second,
  )
  const seen: number[] = []
  let left: number | undefined
  const log = new RunLog(source, {
    onEvents: (events, end, { from, to }) => {
      expect(events.map(({ index }) => index)).toEqual(
        Array.from({ length: to - from }, (_, at) => from + at),
      )
      if (end === 'older') seen.unshift(...events.map(({ index }) => index))
      else seen.push(...events.map(({ index }) => index))
    },
    onReset: () => {},
    onState: ({ isRead, older }) => {
      if (isRead) left = older
    },
  })
  await until('its end is read', () => left !== undefined)
  expect([seen[0], seen.at(-1), left]).toEqual([2_700, 3_699, 1_500])
  await log.loadOlder(0)
  expect([seen[0], seen.length, left]).toEqual([1_200, 2_500, 0])
  log.close()
})
