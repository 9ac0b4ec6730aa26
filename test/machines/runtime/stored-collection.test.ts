/** A stored collection has the latest value of each key, whether it is in memory, on disk or on its way there. */
import { expect, test } from '@jest/globals'
import { KEPT_VALUES_MAX, StoredCollection } from '../../../actors/runtime/stored-collection.ts'

interface Value {
  readonly n: number
}

/** A collection over a disk that counts reads. `commit` writes what the collection contributes. */
function openCollection(disk: Map<string, Value>, options: { keepsValues?: true } = { keepsValues: true }) {
  const reads: string[] = []
  const keyValues = {
    get: (_: string, key: string) => {
      reads.push(key)
      return disk.get(key)
    },
    *all() {
      yield* disk
    },
  }
  const collection = new StoredCollection<Value>('memory', { keyValues, requestCommit: () => {} }, options)
  return {
    collection,
    reads,
    begin: () => {
      const contribution = collection.contribute()
      return () => {
        for (const write of contribution?.writes ?? []) {
          if (write.table !== 'key-value') throw new Error(`a write to ${write.table}`)
          if (write.value === null) disk.delete(write.key)
          // The cast holds because the collection's values are of this type.
          else disk.set(write.key, write.value as Value)
        }
        contribution?.onCommitted()
      }
    },
  }
}

test('a value is read from disk once, and so is its absence', () => {
  const { collection, reads } = openCollection(new Map([['a', { n: 1 }]]))
  for (let i = 0; i < 3; i++)
    expect([collection.get('a'), collection.get('b')]).toEqual([{ n: 1 }, undefined])
  expect(reads).toEqual(['a', 'b'])
})

test('a changed value counts at once, while it is written, and afterwards', () => {
  const { collection, reads, begin } = openCollection(new Map([['a', { n: 1 }]]))
  expect(collection.get('a')).toEqual({ n: 1 })
  collection.set('a', { n: 2 })
  expect(collection.get('a')).toEqual({ n: 2 })
  const finish = begin()
  collection.set('a', { n: 3 })
  finish()
  expect(collection.get('a')).toEqual({ n: 3 })
  begin()()
  expect(collection.get('a')).toEqual({ n: 3 })
  collection.set('a', null)
  begin()()
  expect([collection.get('a'), [...collection.listDurable()]]).toEqual([undefined, []])
  expect(reads).toEqual(['a'])
})

test('a change that is written while another waits does not bring the older value back', () => {
  const { collection, begin } = openCollection(new Map())
  collection.set('a', { n: 1 })
  const finish = begin()
  collection.set('a', null)
  finish()
  expect(collection.get('a')).toBeUndefined()
})

test('values of long ago leave memory, and are read again', () => {
  const disk = new Map(Array.from({ length: KEPT_VALUES_MAX + 1 }, (_, n) => [`k${n}`, { n }]))
  const { collection, reads } = openCollection(disk)
  for (const [key, value] of disk) expect(collection.get(key)).toEqual(value)
  reads.length = 0
  const last = `k${KEPT_VALUES_MAX}`
  expect([collection.get(last), collection.get('k0')]).toEqual([{ n: KEPT_VALUES_MAX }, { n: 0 }])
  expect(reads).toEqual(['k0'])
})

test('a value that is read or written again drops no others', () => {
  const disk = new Map(Array.from({ length: KEPT_VALUES_MAX }, (_, n) => [`k${n}`, { n }]))
  const { collection, reads, begin } = openCollection(disk)
  for (const key of disk.keys()) collection.get(key)
  reads.length = 0
  collection.set('k5', { n: 55 })
  begin()()
  expect([collection.get('k0'), collection.get('k5')]).toEqual([{ n: 0 }, { n: 55 }])
  expect(reads).toEqual([])
})

test('a collection of large values keeps none in memory that are on disk', () => {
  const { collection, reads, begin } = openCollection(new Map(), {})
  collection.set('a', { n: 1 })
  begin()()
  expect([collection.get('a'), collection.get('a')]).toEqual([{ n: 1 }, { n: 1 }])
  expect(reads).toEqual(['a', 'a'])
})
