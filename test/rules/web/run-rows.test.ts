/** The filters of the list of runs, and its groups of equal failures. */
import { expect, test } from '@jest/globals'
import { failureGroups, filterRuns, type RunFilter } from '../../../web/dashboard/runs/run-rows.ts'
import { SampleRecords } from '../../support/sample-records.ts'

const sample = new SampleRecords(Date.parse('2026-11-20T12:00:00Z'))
const runs = sample.busyRuns()
const names = (filter: RunFilter) => filterRuns(runs, filter).map(({ ticket }) => ticket.identifier)

test('filters narrow the list, each and together', () => {
  expect(names({})).toHaveLength(runs.length)
  expect(names({ status: 'preparing,finalizing' }).sort()).toEqual(['ENG-223', 'ENG-404'])
  expect(names({ status: 'failed', text: 'FORBIDDEN 398' })).toEqual(['ENG-398'])
  expect(names({ text: 'eng-412' })).toEqual(['ENG-412'])
  expect(names({ worker: 'wren' })).toContain('ENG-407')
  expect(names({ repo: 'acme/none' })).toEqual([])
})

test('equal failures are a group, which is a filter too', () => {
  const [group, ...others] = failureGroups(runs)
  expect([group?.count, others]).toEqual([3, []])
  expect(names({ failure: group?.fingerprint ?? '' })).toHaveLength(3)
})

test('the newest is the first', () => {
  const ended = filterRuns(sample.finishedRuns(9), {})
  expect(ended.map(({ id }) => id)).toEqual(sample.finishedRuns(9).map(({ id }) => id))
})
