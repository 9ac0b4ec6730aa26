/** A remark counts as answered when every attempt of a completed follow-up received it. */
import { describe, expect, test } from '@jest/globals'
import { AnsweredRemarks, type RemarkOffer } from '../../../actors/runs/follow-up-observer.ts'
import type { KeyValues } from '../../../core/ports/store.ts'

const URL = 'https://code.example/1'

/** Keeps written values over `restart`, and nothing else. */
function createHarness() {
  const disk = new Map<string, object>()
  const keyValues: Pick<KeyValues, 'get'> = { get: (_, key) => disk.get(key) }
  const create = () => new AnsweredRemarks({ keyValues: keyValues as KeyValues, requestCommit: () => {} })
  let remarks = create()
  const offer = (keys: readonly string[], more: Partial<RemarkOffer> = {}) =>
    remarks.recordOffer('run-1', { followUp: 'fu-1', url: URL, keys, answered: [], isAgain: false, ...more })
  const commit = () => {
    const contribution = remarks.contribute()
    for (const write of contribution?.writes ?? [])
      if (write.table === 'key-value' && write.value !== null)
        disk.set(write.key, structuredClone(write.value))
    contribution?.onCommitted()
  }
  const restart = () => {
    remarks = create()
  }
  const end = (isDone: boolean, followUp = 'fu-1') => remarks.recordEnd('run-1', followUp, isDone)
  const answered = (url = URL) => {
    const keys = remarks.answered('run-1', url)
    return keys === undefined ? undefined : [...keys].sort().join('')
  }
  return { offer, land: commit, restart, ends: end, answered }
}

test('remarks of a follow-up count as answered when it completes, also after a restart', () => {
  const remarks = createHarness()
  remarks.offer(['a', 'b'])
  expect(remarks.answered()).toBeUndefined()
  remarks.land()
  remarks.restart()
  remarks.ends(true)
  expect(remarks.answered()).toBe('ab')
  remarks.land()
  remarks.restart()
  expect(remarks.answered()).toBe('ab')
  remarks.offer(['c'], { followUp: 'fu-2', answered: ['a', 'b'] })
  remarks.ends(true, 'fu-2')
  expect(remarks.answered()).toBe('abc')
})

test('a failed follow-up answers nothing, and earlier answers stay', () => {
  const remarks = createHarness()
  remarks.offer(['a'])
  remarks.ends(false)
  expect(remarks.answered()).toBeUndefined()
  remarks.offer(['a'], { followUp: 'fu-2' })
  remarks.ends(true, 'fu-2')
  remarks.offer(['b'], { followUp: 'fu-3', answered: ['a'] })
  remarks.ends(false, 'fu-3')
  expect(remarks.answered()).toBe('a')
})

describe('a follow-up that starts again', () => {
  test('answers only remarks that each attempt received', () => {
    const remarks = createHarness()
    remarks.offer(['a', 'b'])
    remarks.land()
    remarks.restart()
    remarks.offer(['a', 'c'], { isAgain: true, answered: ['z'] })
    remarks.ends(true)
    expect(remarks.answered()).toBe('az')
  })

  test('answers nothing new when the remarks of its first attempt are unknown', () => {
    const remarks = createHarness()
    remarks.offer(['a', 'b'])
    remarks.restart()
    remarks.offer(['a', 'b', 'c'], { isAgain: true, answered: ['z'] })
    remarks.ends(true)
    expect(remarks.answered()).toBe('z')
  })
})

test('other pull requests and ends of other follow-ups have no effect', () => {
  const remarks = createHarness()
  remarks.ends(true)
  remarks.offer(['a'])
  remarks.ends(true, 'fu-0')
  expect(remarks.answered()).toBeUndefined()
  remarks.ends(true)
  expect([remarks.answered(), remarks.answered(`${URL}2`)]).toEqual(['a', undefined])
  remarks.offer(['x'], { followUp: 'fu-2', url: `${URL}2` })
  remarks.ends(true, 'fu-2')
  expect([remarks.answered(), remarks.answered(`${URL}2`)]).toEqual([undefined, 'x'])
})
