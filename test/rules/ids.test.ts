/** Ids sort by their creation time, whatever the clock does. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createIds, uuidv7Hex } from '../../core/ids.ts'

const bytes = (fill: number, count = 10): Uint8Array => new Uint8Array(count).fill(fill)
const random = (fill: number) => ({ bytes: (count: number) => bytes(fill, count) })

test('time, version, variant and random bits have the positions of RFC 9562', () => {
  expect(uuidv7Hex(0x0195a1b2c3d4, bytes(0))).toBe('0195a1b2c3d470008000000000000000')
  expect(uuidv7Hex(0x0195a1b2c3d4, bytes(0xff))).toBe('0195a1b2c3d47fffbfffffffffffffff')
})

test('too few bytes or a time out of range throw', () => {
  expect(() => uuidv7Hex(0, bytes(0, 9))).toThrow(RangeError)
  for (const now of [-1, Number.NaN, 2 ** 48]) expect(() => uuidv7Hex(now, bytes(0))).toThrow(RangeError)
})

test('each kind has its prefix', () => {
  const made = createIds({ now: () => 1 }, random(0))
  expect([made.run(), made.lease(), made.memory()]).toEqual([
    'run-00000000000170008000000000000000',
    'ls-00000000000170018000000000000000',
    'mem-00000000000170028000000000000000',
  ])
})

test('people tell the ids of one millisecond apart by their first 16 digits', () => {
  const made = createIds({ now: () => 1 }, random(0xaa))
  const begun = Array.from({ length: 10_000 }, () => made.run().slice('run-'.length).slice(0, 16))
  expect(new Set(begun).size).toBe(10_000)
})

test('when the counted digits are used up, the next millisecond is borrowed', () => {
  const made = createIds({ now: () => 1 }, random(0xff))
  expect([made.run(), made.run(), made.run()]).toEqual([
    'run-0000000000017fffbfffffffffffffff',
    'run-0000000000027fffbfffffffffffffff',
    'run-0000000000037fffbfffffffffffffff',
  ])
})

test('strictly increasing within a millisecond and when the clock steps back', () => {
  const wall = fc.array(fc.tuple(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 255 })), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(wall, (steps) => {
      let [now, fill] = [0, 0]
      const made = createIds({ now: () => now + 0.5 }, { bytes: (count) => bytes(fill, count) })
      const found = steps.map((step) => {
        ;[now, fill] = step
        return made.lease()
      })
      expect(found).toEqual([...new Set(found)].sort())
      for (const id of found) expect(id).toMatch(/^ls-[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    }),
  )
})

test('random bytes are drawn for many ids at once, and used once', () => {
  let drawn = 0
  let next = 0
  let now = 0
  const counting = {
    bytes: (count: number) => {
      drawn += 1
      return Uint8Array.from({ length: count }, () => next++ % 256)
    },
  }
  const made = createIds({ now: () => ++now }, counting)
  const tails = Array.from({ length: 25 }, () => made.run().slice(-16))
  expect(new Set(tails).size).toBe(25)
  expect(drawn).toBe(1)
  for (let i = 0; i < 40; i++) made.run()
  expect(drawn).toBe(2)
})
