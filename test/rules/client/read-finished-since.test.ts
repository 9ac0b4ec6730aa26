/** Reading the runs that ended since an instant, page by page. */
import { expect, test } from '@jest/globals'
import type { Client } from '../../../client/client.ts'
import { readFinishedSince } from '../../../client/read-finished-since.ts'
import type { Run } from '../../../protocol/run.ts'

const MIDNIGHT = Date.parse('2026-11-20T00:00:00.000Z')
const at = (hours: number): string => new Date(MIDNIGHT + hours * 3_600_000).toISOString()

/** A host whose runs are listed in the order of these instants of their ends. */
function hostOf(ends: readonly string[]) {
  const runs = ends.map((finishedAt, index) => ({ id: `${index}`, finishedAt }) as Run)
  const queries: unknown[] = []
  const client: Pick<Client, 'listRuns'> = {
    listRuns: async (query = {}) => {
      queries.push(query)
      const from = query.before === undefined ? 0 : Number(query.before) + 1
      return runs.slice(from, from + (query.limit ?? Number.POSITIVE_INFINITY))
    },
  }
  return { client, queries }
}

async function read(ends: readonly string[]) {
  const { client, queries } = hostOf(ends)
  const found: Run[] = []
  const isComplete = await readFinishedSince(client, MIDNIGHT, (page) => found.push(...page))
  return { isComplete, requests: queries.length, found: found.length }
}

const repeated = (count: number, end: string): string[] => Array.from({ length: count }, () => end)

test.each([
  ['nothing has ever ended', [], { isComplete: true, requests: 1, found: 0 }],
  ['all runs are one page', repeated(300, at(1)), { isComplete: true, requests: 1, found: 300 }],
  ['the day is over', repeated(2_000, at(-1)), { isComplete: true, requests: 1, found: 500 }],
  [
    'a run of yesterday has ended today',
    [...repeated(499, at(1)), ...repeated(400, at(-1)), at(2), ...repeated(2_000, at(-30))],
    { isComplete: true, requests: 3, found: 1_500 },
  ],
  ['the day has no end', repeated(20_000, at(1)), { isComplete: false, requests: 20, found: 10_000 }],
] as const)('pages are read when %s', async (_, ends, expected) => {
  expect(await read(ends)).toEqual(expected)
})
