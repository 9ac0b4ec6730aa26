import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { RegisterHead } from '../../../protocol/frames.ts'
import { JSON_DEPTH_MAX, JSON_KEYS_MAX } from '../../../protocol/limits.ts'
import { createChecker, parseJson, prefixError } from '../../../protocol/parse.ts'

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
