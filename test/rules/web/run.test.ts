/** The rules of the run page: what can be done now and why not, the timeline, the keys that leave a terminal. */
import { describe, expect, test } from '@jest/globals'
import type { Run, RunStatus } from '../../../protocol/run.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { type ChangeOfState, timelineOf } from '../../../web/dashboard/run/timeline.ts'
import { type RunAct, whyNot, workedWords } from '../../../web/dashboard/runs/run-rules.ts'
import { SampleRecords } from '../../support/sample-records.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')
const MINUTE = 60_000
const sample = new SampleRecords(NOW)
const [worker] = sample.workers()

test.each<[string, Run, string | undefined]>([
  ['has not begun', sample.run(1, 'queued'), undefined],
  [
    'has a cost',
    sample.run(1, 'running', { startedAt: sample.ago(1) }),
    'It has worked for 1 m 00 s, $0.39.',
  ],
  // The sample has no cost for a queued run.
  ['has no known cost', sample.run(1, 'queued', { startedAt: sample.ago(1) }), 'It has worked for 1 m 00 s.'],
])('a run that %s says how long it has worked', (_, run, words) => expect(workedWords(run, NOW)).toBe(words))

describe('what can be done with a run', () => {
  const ACTS: readonly RunAct[] = ['cancel', 'publish', 'retry', 'followup', 'attach', 'release', 'discard']
  const kept = { sandbox: { id: 'sb-1', workerId: 'wk-kestrel-01' }, agentSessionId: 'session-1' }
  const pull = { prUrl: 'https://code.example/1', prState: 'open' as const }
  const possible = (run: Run, found: WorkerView | undefined = worker, competing?: Run) =>
    ACTS.filter((act) => whyNot(act, run, { worker: found, competing }) === undefined)

  test.each<[string, Run, readonly RunAct[]]>([
    ['a queued run', sample.run(1, 'queued'), ['cancel']],
    ['a running run', sample.run(1, 'running'), ['cancel']],
    ['a failed run with its sandbox', sample.run(1, 'failed', kept), ['retry', 'attach', 'discard']],
    [
      'a run whose work waits to be published',
      sample.run(1, 'queued', { sandbox: { ...kept.sandbox, unpublished: true } }),
      ['cancel', 'publish', 'retry'],
    ],
    [
      'a failed run with unpublished work',
      sample.run(1, 'failed', { ...kept, sandbox: { ...kept.sandbox, unpublished: true } }),
      ['publish', 'retry', 'attach', 'discard'],
    ],
    ['a failed run without one', sample.run(1, 'failed'), ['retry']],
    [
      'a completed run',
      sample.run(1, 'completed', { ...kept, ...pull }),
      ['retry', 'followup', 'attach', 'discard'],
    ],
    [
      'a merged run',
      sample.run(1, 'completed', { ...kept, ...pull, prState: 'merged' }),
      ['attach', 'discard'],
    ],
    ['a run without a session', sample.run(1, 'completed', { sandbox: kept.sandbox }), ['retry', 'discard']],
  ])('%s', (_, run, acts) => expect(possible(run)).toEqual(acts))

  const completed = sample.run(1, 'completed', { ...kept, ...pull })

  test('an opened sandbox is released first', () => {
    expect(possible(completed, { ...worker, attachedRuns: [completed.id] } as WorkerView)).toEqual([
      'attach',
      'release',
    ])
  })

  test('a worker that is away, or gone, opens no terminal', () => {
    expect(possible(completed, { ...worker, connection: 'offline' } as WorkerView)).not.toContain('attach')
    expect(whyNot('attach', completed, { worker: undefined, competing: undefined })).toContain(
      'enrolled no more',
    )
  })

  test('another active run of the ticket stands in the way', () => {
    expect(possible(completed, worker, sample.run(2, 'running'))).toEqual(['attach', 'discard'])
  })
})

describe('the timeline', () => {
  let index = 0
  const change = (minutes: number, to: RunStatus, reason?: string): ChangeOfState => ({
    type: 'status',
    runId: 'run-1',
    index: index++,
    at: new Date(NOW + minutes * MINUTE).toISOString(),
    to,
    ...(reason === undefined ? {} : { reason }),
  })
  const run = sample.run(1, 'running', { createdAt: new Date(NOW).toISOString() })

  test('has a bar an attempt, and goes on until now', () => {
    const changes = [
      change(0.1, 'queued'),
      change(1, 'preparing'),
      change(2, 'running'),
      change(6, 'queued', 'interrupted: the lease was lost'),
      change(7, 'preparing'),
      change(8, 'running'),
    ]
    const attempts = timelineOf(run, changes, NOW + 10 * MINUTE)
    expect(attempts.map(({ end, parts }) => [end, parts.map(({ status }) => status)])).toEqual([
      ['interrupted: the lease was lost', ['queued', 'preparing', 'running']],
      [undefined, ['queued', 'preparing', 'running']],
    ])
    const last = attempts.at(-1)?.parts.at(-1)
    expect((last?.start ?? 0) + (last?.length ?? 0)).toBeCloseTo(1)
  })

  test('has one bar for all tries to publish finished work, and tells when the next one is', () => {
    const nextAt = new Date(NOW + 20 * MINUTE).toISOString()
    const reason = `publishing again at ${nextAt}: refused`
    const waiting = sample.run(1, 'queued', { createdAt: run.createdAt, queueReason: reason })
    const changes = [
      change(0.1, 'queued'),
      change(1, 'preparing'),
      change(2, 'running'),
      ...[6, 8].flatMap((minute) => [
        change(minute, 'finalizing'),
        change(minute + 1, 'queued', reason),
        change(minute + 1.5, 'preparing'),
      ]),
      change(11, 'queued', reason),
    ]
    const shown = timelineOf(waiting, changes, NOW + 12 * MINUTE)
    expect(shown.map(({ number, tries, end, nextAt: next }) => [number, tries, end, next])).toEqual([
      [1, undefined, reason, undefined],
      [1, 4, undefined, nextAt],
    ])
    // A person has the agent asked again, without waiting for the next try.
    const asked = [...changes, change(13, 'preparing'), change(14, 'running')]
    expect(timelineOf(run, asked, NOW + 15 * MINUTE).map(({ number, tries }) => [number, tries])).toEqual([
      [1, undefined],
      [1, 3],
      [2, undefined],
    ])
  })

  test('ends with its run, although the log has no end', () => {
    const finishedAt = new Date(NOW + 5 * MINUTE).toISOString()
    const changes = [change(1, 'preparing'), change(2, 'running')]
    const [attempt] = timelineOf({ ...run, status: 'failed', finishedAt }, changes, NOW + 60 * MINUTE)
    const last = attempt?.parts.at(-1)
    expect([attempt?.end, last?.status, last?.to]).toEqual(['failed', 'running', NOW + 5 * MINUTE])
  })

  test('compresses a long wait, and keeps its true length', () => {
    const [attempt] = timelineOf(run, [change(600, 'preparing'), change(601, 'running')], NOW + 610 * MINUTE)
    const [wait] = attempt?.parts ?? []
    expect(wait?.isCompressed).toBe(true)
    expect((wait?.to ?? 0) - (wait?.from ?? 0)).toBe(600 * MINUTE)
    expect(wait?.length).toBeLessThan(0.2)
  })

  test('of a run that ended stops at its end', () => {
    const changes = [change(1, 'preparing'), change(3, 'failed')]
    const [attempt] = timelineOf(run, changes, NOW + 900 * MINUTE)
    expect(attempt?.end).toBe('failed')
    expect(attempt?.parts.at(-1)?.to).toBe(NOW + 3 * MINUTE)
  })
})
