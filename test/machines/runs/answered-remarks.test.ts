/** Which remarks count as told: those that every attempt of a follow-up had which came to a good end. */
import { describe, expect, test } from '@jest/globals'
import { AnsweredRemarks, type RemarkOffer } from '../../../actors/runs/answered-remarks.ts'
import type { KeyValues } from '../../../core/ports.ts'

const URL = 'https://code.example/1'

/** What is written survives; `restart`: nothing else does. */
function book() {
  const disk = new Map<string, object>()
  const keyValues: Pick<KeyValues, 'get'> = { get: (_, key) => disk.get(key) }
  const made = () => new AnsweredRemarks({ keyValues: keyValues as KeyValues, requestCommit: () => {} })
  let told = made()
  const offer = (keys: readonly string[], more: Partial<RemarkOffer> = {}) =>
    told.recordOffer('run-1', { followUp: 'fu-1', url: URL, keys, answered: [], isAgain: false, ...more })
  const land = () => {
    const share = told.contribute()
    for (const write of share?.writes ?? [])
      if (write.table === 'key-value' && write.value !== null)
        disk.set(write.key, structuredClone(write.value))
    share?.onCommitted()
  }
  const restart = () => {
    told = made()
  }
  const ends = (isDone: boolean, followUp = 'fu-1') => told.recordEnd('run-1', followUp, isDone)
  const answered = (url = URL) => {
    const keys = told.answered('run-1', url)
    return keys === undefined ? undefined : [...keys].sort().join('')
  }
  return { offer, land, restart, ends, answered }
}

test('what a follow-up had is told once it is done, also after a restart', () => {
  const b = book()
  b.offer(['a', 'b'])
  expect(b.answered()).toBeUndefined()
  b.land()
  b.restart()
  b.ends(true)
  expect(b.answered()).toBe('ab')
  b.land()
  b.restart()
  expect(b.answered()).toBe('ab')
  b.offer(['c'], { followUp: 'fu-2', answered: ['a', 'b'] })
  b.ends(true, 'fu-2')
  expect(b.answered()).toBe('abc')
})

test('of one that failed nothing is, and what was told before still is', () => {
  const b = book()
  b.offer(['a'])
  b.ends(false)
  expect(b.answered()).toBeUndefined()
  b.offer(['a'], { followUp: 'fu-2' })
  b.ends(true, 'fu-2')
  b.offer(['b'], { followUp: 'fu-3', answered: ['a'] })
  b.ends(false, 'fu-3')
  expect(b.answered()).toBe('a')
})

describe('of one that is begun again', () => {
  test('only what each of its attempts had', () => {
    const b = book()
    b.offer(['a', 'b'])
    b.land()
    b.restart()
    b.offer(['a', 'c'], { isAgain: true, answered: ['z'] })
    b.ends(true)
    expect(b.answered()).toBe('az')
  })

  test('nothing, when it is not known what the first had', () => {
    const b = book()
    b.offer(['a', 'b'])
    b.restart()
    b.offer(['a', 'b', 'c'], { isAgain: true, answered: ['z'] })
    b.ends(true)
    expect(b.answered()).toBe('z')
  })
})

test('another pull request, and an end of another one, are another matter', () => {
  const b = book()
  b.ends(true)
  b.offer(['a'])
  b.ends(true, 'fu-0')
  expect(b.answered()).toBeUndefined()
  b.ends(true)
  expect([b.answered(), b.answered(`${URL}2`)]).toEqual(['a', undefined])
  b.offer(['x'], { followUp: 'fu-2', url: `${URL}2` })
  b.ends(true, 'fu-2')
  expect([b.answered(), b.answered(`${URL}2`)]).toEqual([undefined, 'x'])
})
