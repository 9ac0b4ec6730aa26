/** Tests of the ended runs that may need a person: the newest of each ticket, and not too many. */
import { expect, test } from '@jest/globals'
import { EndedRuns } from '../../../actors/attention/ended-runs.ts'
import { PullConflicts } from '../../../actors/attention/pull-conflicts.ts'
import { UsageLimits } from '../../../actors/runs/usage-limits.ts'
import { ATTENTION_RUNS_MAX } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import { aRun, aTicket, T0, T1 } from '../../rules/run/runs.ts'

const failed = (id: string, ticketId = 't-1', more: Partial<Run> = {}): Run =>
  aRun({ id, status: 'failed', error: 'x', ticket: { ...aTicket, id: ticketId }, ...more })
const idsOf = (runs: EndedRuns) => runs.all().map(({ id }) => id)

test('only the newest run of a ticket counts, in whatever order the records change', () => {
  const runs = new EndedRuns()
  runs.load([failed('run-3'), failed('run-2'), failed('run-1', 't-2')])
  expect(idsOf(runs)).toEqual(['run-1', 'run-3'])
  runs.update(failed('run-2', 't-1', { prState: 'closed' }))
  expect(idsOf(runs)).toEqual(['run-1', 'run-3'])
  runs.update(failed('run-3', 't-1', { prState: 'merged' }))
  expect(idsOf(runs)).toEqual(['run-1'])
})

test('a run that is queued again, or a newer one, takes the place of the ended one', () => {
  const runs = new EndedRuns()
  runs.load([failed('run-2'), failed('run-9', 't-9')])
  runs.update(aRun({ id: 'run-1', ticket: { ...aTicket, id: 't-1' } }))
  runs.update(aRun({ id: 'run-10', ticket: { ...aTicket, id: 't-9' }, status: 'running' }))
  expect(idsOf(runs)).toEqual([])
})

test('the number of runs, limits and conflicts is bounded', () => {
  const [runs, limits, conflicts] = [new EndedRuns(), new UsageLimits(), new PullConflicts()]
  for (let at = 0; at <= ATTENTION_RUNS_MAX; at += 1) {
    runs.update(failed(`run-${at}`, `t-${at}`))
    limits.record({ runId: `run-${at}`, index: 0, at: T0, type: 'limit', provider: 'agentA', message: '' })
    conflicts.record({ url: `https://github.com/a/b/pull/${at}`, mergeableState: 'dirty' }, T0)
  }
  expect([runs.size, limits.size, conflicts.since.size]).toEqual(Array(3).fill(ATTENTION_RUNS_MAX))
  expect(idsOf(runs)[0]).toBe('run-1')
})

test('a conflict keeps the instant at which it was seen first, until it is gone', () => {
  const conflicts = new PullConflicts()
  const url = 'https://github.com/a/b/pull/1'
  expect(conflicts.record({ url, mergeableState: 'dirty' }, T0)).toBe(true)
  expect(conflicts.record({ url, mergeableState: 'dirty' }, T1)).toBe(false)
  expect(conflicts.since.get(url)).toBe(T0)
  expect(conflicts.record({ url, mergeableState: 'clean' }, T1)).toBe(true)
  expect(conflicts.since.size).toBe(0)
})
