/** Texts of a URL become checked values. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { TObject } from 'typebox'
import { createQueryReader, readParams } from '../../../protocol/query.ts'
import { helperRoutes, NoQuery, type Route, routes } from '../../../protocol/routes.ts'

const readQuery = <S extends TObject>(schema: S, given: string | URLSearchParams) =>
  createQueryReader(schema)(given)
const query = createQueryReader(routes.listRuns.query)

test('numbers become numbers and repeated parameters a list', () => {
  expect(query('limit=10&status=queued&status=failed&ticket=7')).toEqual({
    ok: true,
    value: { limit: 10, status: ['queued', 'failed'], ticket: '7' },
  })
  expect(query('')).toEqual({ ok: true, value: {} })
  expect(readQuery(routes.readRunEvents.query, new URLSearchParams({ after: '-1' }))).toEqual({
    ok: true,
    value: { after: -1 },
  })
})

test.each([
  ['limit=0', '/query/limit: must be at least 1, not 0'],
  ['limit=1001', '/query/limit: must be at most 1000, not 1001'],
  ['limit=ten', '/query/limit: must be a whole number, not a string'],
  ['limit=1e2', '/query/limit: must be a whole number, not a string'],
  ['limit=', '/query/limit: must be a whole number, not a string'],
  ['limit=1&limit=2', '/query/limit: is given more than once'],
  [
    'status=open',
    '/query/status/0: must be one of "queued", "preparing", "running", "finalizing", "completed", "failed", "cancelled", not "open"',
  ],
  ['before=', '/query/before: must not be empty'],
  [
    'limti=1',
    '/query/limti: is no parameter of this path; this path takes limit, before, status, ticket, q, repo, agent, worker, failure, since, until, endedSince, prState, sort, skip, omit',
  ],
  [
    'limit=1&%1b[2J=1',
    '/query/\ufffd[2J: is no parameter of this path; this path takes limit, before, status, ticket, q, repo, agent, worker, failure, since, until, endedSince, prState, sort, skip, omit',
  ],
  [
    'toString=1&limit=1',
    '/query/toString: is no parameter of this path; this path takes limit, before, status, ticket, q, repo, agent, worker, failure, since, until, endedSince, prState, sort, skip, omit',
  ],
])('%s', (text, error) => {
  expect(query(text)).toEqual({ ok: false, error })
})

test('the simplest query is read like any other', () => {
  const schemas = [routes.readDemand.query, routes.listRuns.query, routes.readRunEvents.query]
  const name = fc.constantFrom(
    'workerId',
    'limit',
    'status',
    'ticket',
    'after',
    'constructor',
    'toString',
    'x',
  )
  const value = fc.oneof(
    fc.constantFrom('queued', '7', '-1', '0', ''),
    fc.stringMatching(/^[A-Za-z0-9_-]{0,300}$/),
  )
  fc.assert(
    fc.property(fc.constantFrom(...schemas), name, value, (schema, key, text) => {
      expect(readQuery(schema, `${key}=${text}`)).toEqual(
        readQuery(schema, new URLSearchParams(`${key}=${text}`)),
      )
    }),
  )
})

test('a path without parameters takes none', () => {
  expect(readQuery(NoQuery, '')).toEqual({ ok: true, value: {} })
  expect(readQuery(NoQuery, 'a=1')).toEqual({
    ok: false,
    error: '/query/a: is no parameter of this path; this path takes none',
  })
})

test('only the page that a tracker sends the browser back to takes parameters of others', () => {
  const open = [...Object.values(routes), ...Object.values(helperRoutes)].filter(
    (route: Route) => route.query !== undefined && readQuery(route.query, 'other=1&more=2').ok,
  )
  expect(open.map(({ path }) => path)).toEqual(['/api/connect/tracker/callback'])
  expect(readQuery(routes.trackerCallback.query, 'code=c&iss=x')).toEqual({
    ok: true,
    value: { code: 'c' },
  })
})

test('a missing parameter is named', () => {
  expect(readQuery(routes.changeWorkerState.query, 'state=active')).toEqual({
    ok: false,
    error: '/query/workerId: is required',
  })
})

test('pull request parameters are a key and a number', () => {
  const read = (raw: Record<string, string>) => readParams(routes.readPull.params, raw)
  expect(read({ repo: 'acme/lamps', number: '7' })).toEqual({
    ok: true,
    value: { repo: 'acme/lamps', number: 7 },
  })
  expect(read({ repo: 'acme/lamps', number: '0' })).toEqual({
    ok: false,
    error: '/params/number: must be at least 1, not 0',
  })
  expect(read({ repo: 'acme/lamps', number: '7x' }).ok).toBe(false)
})
