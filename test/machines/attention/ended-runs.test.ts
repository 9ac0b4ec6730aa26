/** Tests of the ended runs that may need a person: the newest of each ticket, and not too many. */
import { expect, test } from '@jest/globals'
import { KnownTroubles } from '../../../actors/attention/known-troubles.ts'
import { EndedRuns } from '../../../actors/attention/module.ts'
import { ATTENTION_RUNS_MAX } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import { aRun, aTicket, T0, T1 } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'

const failed = (id: string, ticketId = 't-1', more: Partial<Run> = {}): Run =>
  aRun({ id, status: 'failed', error: 'x', ticket: { ...aTicket, id: ticketId }, ...more })
const knownTroubles = () =>
  new KnownTroubles({
    keyValues: new MemoryControlDatabase(new ManualClock()).keyValues,
    requestCommit: () => {},
  })
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

test('the number of runs and of known troubles is bounded', () => {
  const [runs, troubles] = [new EndedRuns(), knownTroubles()]
  for (let at = 0; at <= ATTENTION_RUNS_MAX; at += 1) {
    runs.update(failed(`run-${at}`, `t-${at}`))
    troubles.set('conflict', `https://github.com/a/b/pull/${at}`, { since: T0 })
  }
  expect([runs.size, troubles.size]).toEqual([ATTENTION_RUNS_MAX, ATTENTION_RUNS_MAX])
  expect(idsOf(runs)[0]).toBe('run-1')
  expect(troubles.of('conflict').has('https://github.com/a/b/pull/0')).toBe(false)
})

test('a trouble keeps the instant at which it was seen first, until it is gone', () => {
  const troubles = knownTroubles()
  expect(troubles.begin('disk', '', { since: T0 })).toBe(true)
  expect(troubles.begin('disk', '', { since: T1 })).toBe(false)
  expect(troubles.of('disk').get('')).toEqual({ since: T0 })
  expect(troubles.begin('disk', '', { since: T1, reason: 'full' })).toBe(true)
  expect(troubles.of('disk').get('')).toEqual({ since: T0, reason: 'full' })
  expect([troubles.end('disk', ''), troubles.end('disk', ''), troubles.size]).toEqual([true, false, 0])
})

test('rows are written as version 1 writes them, and rows of version 1 are read', async () => {
  const database = new MemoryControlDatabase(new ManualClock())
  const troubles = new KnownTroubles({ keyValues: database.keyValues, requestCommit: () => {} })
  const reason = "acme/api can't be read: no answer"
  troubles.set('repository', "acme/api can't be read", { since: T0, reason })
  expect(troubles.contribute()?.writes).toEqual([
    {
      table: 'key-value',
      collection: 'trouble',
      key: "repository acme/api can't be read",
      value: GOLDEN_ROW,
    },
  ])
  const rows = [['any', GOLDEN_ROW] as const, ['newer', { ...GOLDEN_ROW, version: 2 }] as const]
  const keyValues = { get: () => undefined, all: () => rows }
  const restored = new KnownTroubles({ keyValues, requestCommit: () => {} })
  expect([...restored.of('repository')]).toEqual([["acme/api can't be read", { since: T0, reason }]])
  expect(restored.size).toBe(1)
})

/** Never changes: databases hold such rows. */
const GOLDEN_ROW = {
  version: 1,
  kind: 'repository',
  subject: "acme/api can't be read",
  trouble: { since: T0, reason: "acme/api can't be read: no answer" },
}
