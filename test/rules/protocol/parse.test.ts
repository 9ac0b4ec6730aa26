import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { RegisterHead } from '../../../protocol/frames.ts'
import { JSON_DEPTH_MAX, JSON_KEYS_MAX } from '../../../protocol/limits.ts'
import { createChecker, parseJson, prefixError, readParams, readQuery } from '../../../protocol/parse.ts'
import { helperRoutes, NoQuery, type Route, routes } from '../../../protocol/routes.ts'

const nested = (depth: number, inner = '') => '['.repeat(depth) + inner + ']'.repeat(depth)
const refusal = (text: string) => {
  const parsed = parseJson(text)
  return parsed.ok ? 'accepted' : parsed.error
}

describe('parseJson', () => {
  test('reads every JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value)
        // fast-check often generates "__proto__" as a key, which is refused below.
        fc.pre(!/"(__proto__|constructor|prototype)":/.test(text))
        expect(parseJson(text)).toEqual({ ok: true, value: JSON.parse(text) })
      }),
    )
  })

  test('names the position where a text stops being JSON, and quotes nothing', () => {
    expect(refusal('{\n  "token": "s3cret",\n  oops\n}')).toBe('/: is not JSON: line 3, column 3')
    expect(refusal('  ')).toBe('/: is not JSON: there is nothing')
    expect(refusal('s3cret')).not.toContain('s3cret')
    expect(refusal('{"token":"s3cret"x')).not.toContain('s3cret')
  })

  test(`goes ${JSON_DEPTH_MAX} levels deep and no further`, () => {
    expect(parseJson(nested(JSON_DEPTH_MAX)).ok).toBe(true)
    expect(refusal(nested(JSON_DEPTH_MAX + 1))).toBe(`/${'0/'.repeat(31)}0: is nested deeper than 32 levels`)
  })

  test('a megabyte of brackets, closed or not, does not overflow the stack', () => {
    expect(refusal('['.repeat(1024 * 1024))).toMatch(/^\/: is not JSON/)
    expect(refusal('{"a":'.repeat(200_000))).toMatch(/^\/: is not JSON/)
    expect(refusal(nested(512 * 1024))).toMatch(/is nested deeper than 32 levels$/)
    expect(refusal(`${'{"a":'.repeat(170_000)}1${'}'.repeat(170_000)}`)).toMatch(/is nested deeper/)
  })

  test('keys are counted over the whole value', () => {
    const flat = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 0])))
    expect(parseJson(flat(JSON_KEYS_MAX)).ok).toBe(true)
    expect(refusal(flat(JSON_KEYS_MAX + 1))).toBe('/: has more than 10000 keys')
    expect(refusal(`[${'{"a":1},'.repeat(JSON_KEYS_MAX)}{"a":1}]`)).toBe('/: has more than 10000 keys')
    expect(parseJson(flat(JSON_KEYS_MAX + 1), JSON_KEYS_MAX * 2).ok).toBe(true)
  })

  test.each(['__proto__', 'constructor', 'prototype'])('%s is refused as a key at any depth', (key) => {
    const wrap = fc.array(fc.oneof(fc.constant('list'), fc.stringMatching(/^[a-z]{1,5}$/)), { maxLength: 20 })
    fc.assert(
      fc.property(wrap, (path) => {
        const text = path.reduceRight(
          (inner, step) => (step === 'list' ? `[${inner}]` : `{"${step}":${inner}}`),
          `{"${key}":{"x":1}}`,
        )
        expect(refusal(text)).toMatch(new RegExp(`/${key}: is a key that is never accepted$`))
      }),
    )
    expect(
      refusal(
        `{"\\u005f${key.slice(1)}":1}`.replace('\\u005f', key.startsWith('_') ? '\\u005f' : (key[0] ?? '')),
      ),
    ).toMatch(/never accepted/)
  })

  test('the same names are valid as values', () => {
    expect(parseJson('["__proto__","constructor"]').ok).toBe(true)
  })

  test('a key cannot forge a line of the log', () => {
    expect(refusal('{"a\\nlevel=error \\u202e":{"__proto__":1}}')).toBe(
      '/a�level=error �/__proto__: is a key that is never accepted',
    )
  })
})

describe('checker', () => {
  test('one checker per schema, however often it is requested', () => {
    expect(createChecker(RegisterHead)).toBe(createChecker(RegisterHead))
  })

  test('prefixError puts a prefix in front of the path', () => {
    expect(prefixError('/body', { ok: false, error: '/: must be an object' })).toEqual({
      ok: false,
      error: '/body: must be an object',
    })
    expect(prefixError('/body', { ok: false, error: '/a: is required' })).toEqual({
      ok: false,
      error: '/body/a: is required',
    })
  })
})

describe('a URL', () => {
  const query = (text: string) => readQuery(routes.listRuns.query, text)

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
    ['limti=1', '/query/limti: is no parameter of this path; this path takes limit, before, status, ticket'],
    [
      'limit=1&%1b[2J=1',
      '/query/\ufffd[2J: is no parameter of this path; this path takes limit, before, status, ticket',
    ],
    [
      'toString=1&limit=1',
      '/query/toString: is no parameter of this path; this path takes limit, before, status, ticket',
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
})
