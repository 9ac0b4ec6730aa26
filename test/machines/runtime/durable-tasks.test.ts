/** What is still to be done at a neighbour's, through the moments in which it could be forgotten. */
import { expect, test } from '@jest/globals'
import { DurableTasks } from '../../../actors/runtime/durable-tasks.ts'
import type { KeyValues } from '../../../core/ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { keptLog } from '../../support/recording-log.ts'

interface Chore {
  readonly name: string
}

/** The disk, and everybody who does a chore in the hand. */
function bench() {
  const disk = new Map<string, object>()
  const keyValues: KeyValues = { get: (_, key) => disk.get(key), all: () => disk.entries() }
  const tried: { readonly name: string; readonly end: (answer: Result<void>) => void }[] = []
  const open = () =>
    new DurableTasks<Chore>({
      clock: new ManualClock(),
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: keptLog(),
      keyValues,
      requestCommit: () => {},
      prefix: 'test/',
      attemptsMax: 3,
      attempt: (_, { name }) => new Promise((end) => void tried.push({ name, end })),
      onGivenUp: () => {},
    })
  /** Answers what lets the cut land on the disk. */
  const cut = (chores: DurableTasks<Chore>) => {
    const share = chores.contribute()
    return () => {
      for (const write of share?.writes ?? []) {
        if (write.table !== 'key-value') continue
        if (write.value === null) disk.delete(write.key)
        else disk.set(write.key, write.value)
      }
      share?.onCommitted()
    }
  }
  return { disk, tried, open, cut }
}

test('one that is done while another is on its way to the disk in its place does not take that one along', async () => {
  const { disk, tried, open, cut } = bench()
  const chores = open()
  chores.add('run', { name: 'first' })
  cut(chores)()
  chores.add('run', { name: 'second' })
  const landing = cut(chores)
  tried[0]?.end(yes(undefined))
  await new Promise((resolve) => setImmediate(resolve))
  landing()
  cut(chores)()
  expect([...disk]).toEqual([['test/run', { name: 'second' }]])
  chores.stop()
  const after = open()
  after.start()
  expect(tried.map(({ name }) => name)).toEqual(['first', 'second', 'second'])
  tried[2]?.end(yes(undefined))
  await new Promise((resolve) => setImmediate(resolve))
  cut(after)()
  expect(disk.size).toBe(0)
})
