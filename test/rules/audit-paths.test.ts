/** The paths that an entry of the trail names: those that differ, bounded, and no value. */
import { expect, test } from '@jest/globals'
import { changedPaths, pathsIn, TRAIL_KEYS_MAX, TRAIL_TEXT_CHARS_MAX } from '../../core/audit-paths.ts'

test.each([
  [{ a: 1, b: { c: [1, 2], d: 'x' } }, { a: 1, b: { c: [1, 3], d: 'x' } }, ['b.c']],
  [{ a: { b: 1 } }, {}, ['a.b']],
  [{}, { a: { b: 1, c: {} } }, ['a.b', 'a.c']],
  [{ a: { b: 1 } }, { a: 2 }, ['a.b']],
  [{ a: 1 }, { a: 1 }, []],
])('between %j and %j the paths %j differ', (before, after, paths) => {
  expect(changedPaths(before, after)).toEqual(paths)
})

test('paths are bounded in number and length', () => {
  const many = Object.fromEntries(Array.from({ length: 2 * TRAIL_KEYS_MAX }, (_, n) => [`k${n}`, n]))
  expect(pathsIn(many)).toHaveLength(TRAIL_KEYS_MAX)
  expect(pathsIn({ ['x'.repeat(2 * TRAIL_TEXT_CHARS_MAX)]: 1 })).toEqual(['x'.repeat(TRAIL_TEXT_CHARS_MAX)])
  expect(pathsIn(undefined)).toEqual([])
})
