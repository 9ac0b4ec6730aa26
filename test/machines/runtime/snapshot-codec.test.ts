import { describe, expect, test } from '@jest/globals'
import { createActor } from 'xstate'
import { createSnapshotCodec, statePath } from '../../../actors/runtime/snapshot-codec.ts'
import { tallyCodec, tallyMachine } from '../../support/counter-actor.ts'

const snapshot = (events: readonly ('add' | 'rest')[] = []) => {
  const actor = createActor(tallyMachine.provide({ actions: { recordCount: () => {} } }), {
    input: { name: 'x' },
  }).start()
  for (const type of events) actor.send({ type })
  return actor.getSnapshot()
}

describe('snapshots', () => {
  test('a state is encoded as version, code and fields, and decoded to the same', () => {
    const record = tallyCodec.encode(snapshot(['rest', 'add']), new Map([['nap', 5]]))
    expect(record).toEqual({ v: 2, s: 'rd', c: { name: 'x', n: 0 }, d: { nap: 5 } })
    expect(tallyCodec.decode(JSON.parse(JSON.stringify(record)))).toEqual({
      is: 'snapshot',
      snapshot: { value: { resting: 'deeply' }, context: { name: 'x', n: 0 }, deadlines: { nap: 5 } },
    })
  })

  test('without deadlines there is no field for them', () => {
    expect(tallyCodec.encode(snapshot(), new Map())).not.toHaveProperty('d')
  })

  test('an older snapshot is lifted, one version at a time', () => {
    expect(tallyCodec.decode({ v: 1, s: 'a', c: { name: 'x', count: 3 } })).toMatchObject({
      is: 'snapshot',
      snapshot: { value: 'awake', context: { name: 'x', n: 3 } },
    })
  })

  test('a newer snapshot is refused', () => {
    expect(tallyCodec.decode({ v: 3, s: 'a', c: {} })).toMatchObject({ is: 'newer' })
  })

  test.each([
    ['a version nothing lifts', { v: 0, s: 'a', c: {} }, /no lift from format 0/],
    ['an unknown state', { v: 2, s: '?', c: { name: 'x', n: 0 } }, /unknown state/],
    ['wrong fields', { v: 2, s: 'a', c: { name: 'x', n: 'many' } }, /\/n/],
  ])('%s counts as damage, with its reason', (_what, record, reason) => {
    expect(tallyCodec.decode(record)).toMatchObject({ is: 'damaged', reason: expect.stringMatching(reason) })
  })

  test('a change of states, codes or fields changes the fingerprint', () => {
    const shape = { check: (value: unknown) => ({ ok: true as const, value }), text: 'n' }
    const print = (states: Record<string, string>, text = 'n', v = 1) =>
      createSnapshotCodec({ version: v, states, schema: { ...shape, text }, lifts: {} }).fingerprint()
    const prints = [
      print({ a: '1' }),
      print({ b: '1' }),
      print({ a: '2' }),
      print({ a: '1' }, 'm'),
      print({ a: '1' }, 'n', 2),
    ]
    expect(new Set(prints).size).toBe(prints.length)
    expect(print({ a: '1', b: '2' })).toBe(print({ b: '2', a: '1' }))
  })

  test('mistakes in a codec are found when it is created, or at the first encode', () => {
    const shape = { check: (value: unknown) => ({ ok: true as const, value }), text: '' }
    expect(() =>
      createSnapshotCodec({ version: 1, states: { a: 'x', b: 'x' }, schema: shape, lifts: {} }),
    ).toThrow(/share a code/)
    expect(() =>
      createSnapshotCodec({ version: 1, states: { unknown: 'o' }, schema: shape, lifts: {} }).encode(
        snapshot(),
        undefined,
      ),
    ).toThrow(/no code/)
    expect(() => statePath({ a: 'b', c: 'd' })).toThrow(/parallel/)
  })
})
