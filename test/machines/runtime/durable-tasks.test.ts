/** What is still to be done at a neighbour's, through the moments in which it could be forgotten. */
import { expect, test } from '@jest/globals'
import { DurableTasks } from '../../../actors/runtime/durable-tasks.ts'
import type { KeyValues } from '../../../core/ports.ts'
import { type Result, yes } from '../../../core/result.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { keptLog } from '../../support/recording-log.ts'

interface NamedTask {
  readonly name: string
}

/** The disk, and everybody who does a chore in the hand. */
function createHarness() {
  const disk = new Map<string, object>()
  const keyValues: KeyValues = { get: (_, key) => disk.get(key), all: () => disk.entries() }
  const attempts: { readonly name: string; readonly end: (answer: Result<void>) => void }[] = []
  const open = () =>
    new DurableTasks<NamedTask>({
      clock: new ManualClock(),
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: keptLog(),
      keyValues,
      requestCommit: () => {},
      prefix: 'test/',
      attemptsMax: 3,
      attempt: (_, { name }) => new Promise((end) => void attempts.push({ name, end })),
      onGivenUp: () => {},
    })
  /** Answers what lets the cut land on the disk. */
  const commit = (tasks: DurableTasks<NamedTask>) => {
    const contribution = tasks.contribute()
    return () => {
      for (const write of contribution?.writes ?? []) {
        if (write.table !== 'key-value') continue
        if (write.value === null) disk.delete(write.key)
        else disk.set(write.key, write.value)
      }
      contribution?.onCommitted()
    }
  }
  return { disk, attempts, open, commit }
}

test('one that is done while another is on its way to the disk in its place does not take that one along', async () => {
  const { disk, attempts, open, commit } = createHarness()
  const tasks = open()
  tasks.add('run', { name: 'first' })
  commit(tasks)()
  tasks.add('run', { name: 'second' })
  const finishCommit = commit(tasks)
  attempts[0]?.end(yes(undefined))
  await new Promise((resolve) => setImmediate(resolve))
  finishCommit()
  commit(tasks)()
  expect([...disk]).toEqual([['test/run', { name: 'second' }]])
  tasks.stop()
  const after = open()
  after.start()
  expect(attempts.map(({ name }) => name)).toEqual(['first', 'second', 'second'])
  attempts[2]?.end(yes(undefined))
  await new Promise((resolve) => setImmediate(resolve))
  commit(after)()
  expect(disk.size).toBe(0)
})
