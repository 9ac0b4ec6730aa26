/** Tests of values that must never become configuration. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { checkJsonSafety, isJsonEqual } from '../../../core/settings/json-values.ts'
import { JSON_DEPTH_MAX, JSON_KEYS_MAX } from '../../../protocol/limits.ts'

const nested = (depth: number): unknown => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)

const complaint = (value: unknown): string => {
  const answer = checkJsonSafety(value)
  return answer.ok ? 'sound' : answer.refusal.message
}

describe('by example', () => {
  test.each<[unknown, string]>([
    [{}, 'sound'],
    [{ a: [1, 'two', null, true] }, 'sound'],
    [JSON.parse('{"__proto__": {}}'), '/__proto__: is a key that is never accepted'],
    [JSON.parse('{"a": [{"constructor": 1}]}'), '/a/0/constructor: is a key that is never accepted'],
    [{ prototype: 1 }, '/prototype: is a key that is never accepted'],
    [JSON.parse('{"a": 1e999}'), '/a: is a number out of range'],
    [{ a: Number.NaN }, '/a: is a number out of range'],
    [{ a: 'x\ud800' }, '/a: holds half of a surrogate pair'],
    [{ a: '🚂' }, 'sound'],
    [{ 'k\udfff': 1 }, '/k\ufffd: is a key with half of a surrogate pair'],
    [{ a: undefined }, '/a: is not a JSON value (undefined)'],
    [{ a: 1n }, '/a: is not a JSON value (bigint)'],
  ])('%p', (value, expected) => {
    expect(complaint(value)).toBe(expected)
  })

  test('depth has a limit', () => {
    expect(complaint(nested(JSON_DEPTH_MAX))).toBe('sound')
    expect(complaint(nested(JSON_DEPTH_MAX + 1))).toMatch(/^(\/a){32}: is nested deeper than 32 levels$/)
    expect(complaint(JSON.parse('['.repeat(5000) + ']'.repeat(5000)))).toContain('nested deeper than')
  })

  test('the number of keys over the whole value has a limit', () => {
    const wide = (count: number): unknown =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]))
    expect(complaint(wide(JSON_KEYS_MAX))).toBe('sound')
    expect(complaint(wide(JSON_KEYS_MAX + 1))).toContain('more than')
    expect(complaint({ a: wide(JSON_KEYS_MAX / 2), b: wide(JSON_KEYS_MAX / 2) })).toContain('more than')
  })
})

test('a safe value survives being written and read', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      if (!checkJsonSafety(value).ok) return
      expect(isJsonEqual(JSON.parse(JSON.stringify(value)), value)).toBe(true)
    }),
  )
})

test('no message contains a key that could break a line or a terminal', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (key) => {
      const shown = complaint(Object.fromEntries([[key, Number.NaN]]))
      expect(shown).not.toMatch(/[\p{Cc}\p{Cf}]/u)
      expect(shown.length).toBeLessThan(500)
    }),
  )
})
