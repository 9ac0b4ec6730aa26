/** Tests that DurableTasks loses no task, even when commits, attempts and restarts overlap. */
import { expect, test } from '@jest/globals'
import { DurableTasks } from '../../../actors/runtime/durable-tasks.ts'
import type { KeyValues } from '../../../core/ports/store.ts'
import { type Result, yes } from '../../../core/result.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

interface NamedTask {
  readonly name: string
}

/** A disk, and attempts that the test ends. */
function createHarness() {
  const disk = new Map<string, object>()
  const keyValues: KeyValues = { get: (_, key) => disk.get(key), all: () => disk.entries() }
  const attempts: { readonly name: string; readonly end: (answer: Result<void>) => void }[] = []
  const open = () =>
    new DurableTasks<NamedTask>({
      clock: new ManualClock(),
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: createRecordingLog(),
      keyValues,
      requestCommit: () => {},
      prefix: 'test/',
      attemptsMax: 3,
      attempt: (_, { name }) => new Promise((end) => void attempts.push({ name, end })),
      onGivenUp: () => {},
    })
  /** Starts a commit. The returned function puts it on disk. */
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

test('a task that ends while its replacement is being written does not delete the replacement', async () => {
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
