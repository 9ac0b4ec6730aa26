/** Tests of merge patches: what they change and what they leave unchanged. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { mergePatch } from '../../../protocol/merge-patch.ts'

describe('by example', () => {
  test.each<[string, unknown, unknown, unknown]>([
    ['objects merge key by key', { a: { x: 1, y: 2 } }, { a: { y: 3 } }, { a: { x: 1, y: 3 } }],
    ['arrays replace', { a: [1, 2, 3] }, { a: [4] }, { a: [4] }],
    ['scalars replace', { a: 1 }, { a: 'b' }, { a: 'b' }],
    ['null deletes a key', { a: 1, b: 2 }, { a: null }, { b: 2 }],
    ['null deletes a whole section', { a: { x: 1 }, b: 2 }, { a: null }, { b: 2 }],
    ['null for a key that is not there changes nothing', { a: 1 }, { z: null }, { a: 1 }],
    ['an object takes the place of a scalar', { a: 1 }, { a: { x: 1 } }, { a: { x: 1 } }],
    ['a scalar takes the place of an object', { a: { x: 1 } }, { a: 1 }, { a: 1 }],
    ['a new object leaves its nulls behind', {}, { a: { x: null, y: 1 } }, { a: { y: 1 } }],
    ['nulls inside an array are values', {}, { a: [null] }, { a: [null] }],
    ['an empty object creates its section', {}, { a: {} }, { a: {} }],
  ])('%s', (_, current, patch, expected) => {
    expect(mergePatch(current, patch)).toEqual(expected)
  })

  test('a mapping is removed by its key, the others stay', () => {
    const current = { repos: { web: { remote: 'o/web' }, api: { remote: 'o/api' } } }
    expect(mergePatch(current, { repos: { web: null } })).toEqual({ repos: { api: { remote: 'o/api' } } })
  })

  test.each(['{"__proto__": {"polluted": 1}}', '{"constructor": {"prototype": {"polluted": 1}}}'])(
    '%s reaches no prototype',
    (text) => {
      const merged = mergePatch(JSON.parse('{"__proto__": {"deep": {}}}'), JSON.parse(text))
      expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
      expect(Object.getPrototypeOf(merged)).toBe(Object.prototype)
    },
  )
})

// Uses few keys, so that patches and values share some.
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, 0, 1, '', 'text'),
    fc.array(tie('json'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__', 'toString'), tie('json'), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
  ),
}))
const object = fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), json, { noNullPrototype: true })

describe('properties', () => {
  test('applying a patch twice equals applying it once', () => {
    fc.assert(
      fc.property(object, object, (current, patch) => {
        const once = mergePatch(current, patch)
        expect(mergePatch(once, patch)).toEqual(once)
      }),
    )
  })

  test('the empty patch changes nothing, and a value patched with itself loses only its nulls', () => {
    fc.assert(
      fc.property(object, (value) => {
        expect(mergePatch(value, {})).toEqual(value)
        expect(mergePatch({}, value)).toEqual(mergePatch(value, value))
      }),
    )
  })

  test('keys outside the patch stay; keys with null are removed', () => {
    fc.assert(
      fc.property(object, object, (current, patch) => {
        const merged = new Map(Object.entries(mergePatch(current, patch) as object))
        for (const [key, value] of Object.entries(current))
          if (!Object.hasOwn(patch, key)) expect(merged.get(key)).toEqual(value)
        for (const [key, value] of Object.entries(patch)) expect(merged.has(key)).toBe(value !== null)
      }),
    )
  })

  test('neither argument is changed, and the result shares nothing with them', () => {
    fc.assert(
      fc.property(object, object, (current, patch) => {
        const before = JSON.stringify([current, patch])
        scribble(mergePatch(current, patch))
        expect(JSON.stringify([current, patch])).toBe(before)
      }),
    )
  })
})

/** Modifies every array and object that it can reach. */
function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const inner of Object.values(value)) scribble(inner)
  if (Array.isArray(value)) value.push('scribbled')
  else Object.defineProperty(value, 'scribbled', { value: true, enumerable: true, configurable: true })
}
