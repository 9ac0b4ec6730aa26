/** The line of the log about a run's change of status, and the kinds of ends that metrics count. */
import { expect, test } from '@jest/globals'
import { classifyRunEnd, describeTransition } from '../../../core/run/describe-transition.ts'
import { interruptionError } from '../../../core/run/interruption.ts'
import type { Run } from '../../../protocol/run.ts'
import { aRun } from './runs.ts'

const startedAt = '2026-01-01T00:00:00.000Z'
const now = Date.parse('2026-01-01T00:05:10.000Z')
const tokens = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, byModel: [] }
const prUrl = 'https://code.example/acme/web/pull/92'

test.each<[Partial<Run>, string]>([
  [{ status: 'queued' }, 'ENG-12 queued'],
  [
    { status: 'queued', queueReason: 'interrupted: worker mica was lost', startedAt },
    'ENG-12 queued: interrupted: worker mica was lost',
  ],
  [{ status: 'preparing', startedAt }, 'ENG-12 preparing on atlas'],
  [{ status: 'running', startedAt }, 'ENG-12 running after 5m10s'],
  [
    { status: 'finalizing', startedAt, costTotals: { ...tokens, costUsd: 0.41, estimated: true } },
    'ENG-12 finalizing after 5m10s, ~$0.41',
  ],
  [
    {
      status: 'completed',
      startedAt,
      finishedAt: '2026-01-01T00:41:02.000Z',
      costTotals: { ...tokens, costUsd: 3.1, estimated: false },
      prUrl,
    },
    `ENG-12 completed in 41m02s, $3.10, ${prUrl}`,
  ],
  [
    {
      status: 'failed',
      startedAt,
      costTotals: { ...tokens, estimated: true },
      error: 'npm\n test \u001b[2Jfailed',
    },
    'ENG-12 failed in 5m10s: npm test [2Jfailed',
  ],
  [{ status: 'cancelled' }, 'ENG-12 cancelled'],
])('%j', (change, line) => {
  const run: Run = aRun(change)
  expect(describeTransition({ run, workerName: 'atlas', now })).toBe(line)
})

test('a long error is cut', () => {
  const run: Run = aRun({ status: 'failed', error: 'x'.repeat(10_000) })
  expect(describeTransition({ run, workerName: undefined, now }).length).toBeLessThan(400)
})

test.each<[Run['status'], string | undefined, 'run' | 'follow-up', object | undefined]>([
  ['completed', undefined, 'run', { job: 'run', status: 'completed', failure: 'none' }],
  ['cancelled', 'no longer wanted', 'run', { job: 'run', status: 'cancelled', failure: 'none' }],
  ['failed', 'npm failed', 'run', { job: 'run', status: 'failed', failure: 'reported' }],
  ['failed', interruptionError('lost'), 'run', { job: 'run', status: 'failed', failure: 'interrupted' }],
  ['completed', 'conflict', 'follow-up', { job: 'follow-up', status: 'failed', failure: 'reported' }],
  ['completed', undefined, 'follow-up', { job: 'follow-up', status: 'completed', failure: 'none' }],
  ['running', undefined, 'run', undefined],
])('a run that is %s (%s) as a %s', (status, error, job, end) => {
  expect(classifyRunEnd(aRun({ status, ...(error === undefined ? {} : { error }) }), job)).toEqual(end)
})
