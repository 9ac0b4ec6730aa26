/** The list of runs: what the address asks for, and which of the known runs belong there. */
import { expect, test } from '@jest/globals'
import { configDefaults } from '../../../protocol/config.ts'
import { RUNS_SKIPPED_MAX } from '../../../protocol/limits.ts'
import type { Run } from '../../../protocol/run.ts'
import { createRunFilter } from '../../../protocol/run-filter.ts'
import {
  askedOf,
  isReadable,
  type ListedRuns,
  shownRuns,
  withFirstPage,
} from '../../../web/dashboard/runs/run-rows.ts'
import { SampleRecords } from '../../support/sample-records.ts'

const NOON = new Date(2026, 10, 20, 12).getTime()
const sample = new SampleRecords(NOON)
const runs = new Map(sample.busyRuns().map((run) => [run.id, run]))

const asked = (query: string) => askedOf(new URLSearchParams(query), NOON)
const names = (query: string, listed?: ListedRuns) =>
  shownRuns(runs, asked(query), listed, configDefaults).map(({ ticket }) => ticket.identifier)

test('filters narrow the list, each and together', () => {
  expect(names('')).toHaveLength(runs.size)
  expect(names('status=preparing,finalizing').sort()).toEqual(['ENG-223', 'ENG-404'])
  expect(names('status=failed&q=FORBIDDEN+398')).toEqual(['ENG-398'])
  expect(names('q=eng-412')).toEqual(['ENG-412'])
  expect(names('worker=wren')).toContain('ENG-407')
  expect(names('repo=acme/none')).toEqual([])
})

test('days of the address are local days, the last one included', () => {
  const iso = (day: number) => new Date(2026, 10, day).toISOString()
  expect(asked('since=2026-11-09&until=2026-11-12').filter).toEqual({ since: iso(9), until: iso(13) })
  expect(asked('since=today&ended=today').filter).toEqual({ since: iso(20), endedSince: iso(20) })
  expect(asked('since=7d').filter).toEqual({ since: iso(14) })
  expect(asked('since=soon&until=&sort=best')).toEqual({
    words: { since: 'soon' },
    filter: {},
    sort: 'newest',
  })
})

test('the newest stand first, down to the last one that the host has listed', () => {
  const ids = [...runs.keys()].sort().reverse()
  const listed = { ids: ids.slice(2, 5), isComplete: false }
  const shown = (each: ListedRuns) => shownRuns(runs, asked(''), each, configDefaults).map(({ id }) => id)
  expect(shown(listed)).toEqual(ids.slice(0, 5))
  expect(shown({ ...listed, isComplete: true })).toEqual(ids)
})

test('after an absence the pages that were read stay, unless more runs came between than one page holds', () => {
  const known = { ids: ['e', 'd', 'c', 'b', 'a'], isComplete: true }
  const first = (...ids: string[]) => ({ ids, isComplete: false })
  expect(withFirstPage(known, first('g', 'f', 'e'))).toEqual({ ...known, ids: ['g', 'f', ...known.ids] })
  expect(withFirstPage(known, first('i', 'h', 'g'))).toEqual(first('i', 'h', 'g'))
  // Another order may have changed.
  expect(withFirstPage(known, first('c', 'e')).ids).toEqual(['c', 'e', 'd', 'b', 'a'])
  expect(withFirstPage(known, { ids: ['a'], isComplete: true }).ids).toEqual(['a'])
})

test('any other order is the one that the host has listed', () => {
  const ids = [...runs.keys()].slice(0, 3)
  expect(shownRuns(runs, asked('sort=cost'), { ids, isComplete: false }, configDefaults)).toEqual(
    ids.map((id) => runs.get(id)),
  )
  expect(names('sort=cost')).toEqual([])
})

test("a run is of the agent that worked on it, else of its repository's", () => {
  const settings = {
    ...configDefaults,
    repos: { web: { remote: 'acme/web', agent: 'agentB' as const } },
  }
  const run = sample.run(1, 'queued')
  const ofWeb: Run = { ...run, ticket: { ...run.ticket, repo: 'web' } }
  const cost = { label: 'agent', inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 }
  const worked: Run = { ...ofWeb, costs: [{ ...cost, provider: 'agentC', estimated: false }] }
  const agents = ['agentA', 'agentB', 'agentC'] as const
  const agentOf = (each: Run) => agents.filter((agent) => createRunFilter({ agent }, settings)(each))
  expect([run, ofWeb, { ...ofWeb, agent: { provider: 'agentA' as const } }, worked].map(agentOf)).toEqual([
    ['agentA'],
    ['agentB'],
    ['agentA'],
    ['agentC'],
  ])
})

test('the next page is read as far as the host answers', () => {
  const ids = Array.from({ length: RUNS_SKIPPED_MAX }, (_, at) => `run-${at}`)
  const more = [...ids, 'run-more']
  expect(isReadable('cost', { ids, isComplete: false })).toBe(true)
  expect(isReadable('cost', { ids: more, isComplete: false })).toBe(false)
  expect(isReadable('newest', { ids: more, isComplete: false })).toBe(true)
  expect(isReadable('newest', { ids, isComplete: true })).toBe(false)
})
