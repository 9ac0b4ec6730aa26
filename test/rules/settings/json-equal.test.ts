/** Tests of JSON equality, on which "changed", "restart" and the check of credentials depend. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { isJsonEqual } from '../../../core/settings/json-values.ts'

test.each<[unknown, unknown, boolean]>([
  [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
  [{ a: 1 }, { a: 1, b: undefined }, true],
  [{ a: 1 }, { a: 1, b: null }, false],
  [[1], [1, 2], false],
  [[1, 2], [1], false],
  [[1, 2], [2, 1], false],
  [[], {}, false],
  [{}, null, false],
  ['1', 1, false],
  [0, -0, true],
  [{ toString: 1 }, {}, false],
])('%j and %j: %p', (a, b, expected) => {
  expect(isJsonEqual(a, b)).toBe(expected)
  expect(isJsonEqual(b, a)).toBe(expected)
})

test('a value equals its parsed JSON, whatever the order of its keys', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const turned = JSON.parse(JSON.stringify(value), (_, inner: unknown) => {
        const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner)
        return isObject ? Object.fromEntries(Object.entries(inner).reverse()) : inner
      })
      expect(isJsonEqual(turned, value)).toBe(true)
    }),
  )
})

test('two values are equal exactly when their JSON with sorted keys is equal', () => {
  const { json } = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 2 },
      fc.constantFrom(null, 0, 1, 'a'),
      fc.array(tie('json'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom('a', 'b'), tie('json'), { maxKeys: 2, noNullPrototype: true }),
    ),
  }))
  fc.assert(
    fc.property(json, json, (a, b) => isJsonEqual(a, b) === (sorted(a) === sorted(b))),
    { numRuns: 1000 },
  )
})

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner)
    return isObject ? Object.fromEntries(Object.entries(inner).sort()) : inner
  })
}
