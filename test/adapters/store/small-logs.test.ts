/** Tests that small logs rest in the database, and that a log that becomes large moves to its file as a whole. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { open } from 'lmdb'
import { realRandom } from '../../../bin/process/clock.ts'
import type { Store } from '../../../core/ports/store.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import type { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { SMALL_LOG_BYTES_MAX } from '../../../store/lmdb/event-chunks.ts'
import { openStore } from '../../../store/store.ts'
import { readEvents } from '../../support/event-batches.ts'
import { createFastClock } from '../../support/fast-clock.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { logEvent, logEvents, putEvents, putRun, runId, sampleRun } from './samples.ts'

const opened: Store[] = []

async function openAt(dataDir: string): Promise<Store> {
  const store = await openStore({
    dataDir,
    clock: createFastClock(20),
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  })
  opened.push(store)
  return store
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

const linesOf = (events: readonly RunEvent[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('')
const fileOf = (dataDir: string, id = runId(1)) => join(dataDir, 'runs', id, 'events.jsonl')
const append = (store: Store, events: readonly RunEvent[], id = runId(1)) =>
  store.database.commit([putEvents(id, events)])

/** An event whose line has exactly this many bytes. */
function eventOf(index: number, bytes: number): RunEvent {
  const text = 'x'.repeat(bytes - linesOf([logEvent(runId(1), index, '')]).length)
  return logEvent(runId(1), index, text)
}

/** Counts the chunks in a table of a closed store. */
async function chunksIn(dataDir: string, name: string): Promise<number> {
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const count = [...raw.openDB({ name, encoding: 'binary' }).getKeys()].length
  await raw.close()
  return count
}

test('a small log stays in the database, where a restart finds it and a removal ends it', async () => {
  const dataDir = diskFolder()
  const first = await openAt(dataDir)
  await append(first, logEvents(runId(1), 0, 2))
  await append(first, logEvents(runId(1), 2, 5))
  await append(first, logEvents(runId(2), 0, 1), runId(2))
  expect(await readEvents(first.events, runId(1))).toEqual(logEvents(runId(1), 0, 5))
  await first.close()
  expect(await chunksIn(dataDir, 'events-tail')).toBe(0)

  const second = await openAt(dataDir)
  expect(second.events.nextIndex(runId(1))).toBe(5)
  expect(second.events.storedBytes(runId(1))).toBe(linesOf(logEvents(runId(1), 0, 5)).length)
  for (const after of [0, 1, 3])
    expect(await readEvents(second.events, runId(1), { after, limit: 2 })).toEqual(
      logEvents(runId(1), after + 1, Math.min(after + 3, 5)),
    )
  expect(await readEvents(second.events, runId(1), { after: 0, before: 3 })).toEqual(
    logEvents(runId(1), 1, 3),
  )
  await append(second, logEvents(runId(1), 5, 6))
  expect(await readEvents(second.events, runId(1))).toEqual(logEvents(runId(1), 0, 6))
  await second.events.remove(runId(1))
  expect(second.events.nextIndex(runId(1))).toBe(0)
  expect(second.events.storedBytes(runId(1))).toBe(0)
  expect(await readEvents(second.events, runId(1))).toEqual([])
  expect(await readEvents(second.events, runId(2))).toEqual(logEvents(runId(2), 0, 1))
  await second.close()
  expect(await chunksIn(dataDir, 'events-small')).toBe(1)
  expect(readdirSync(join(dataDir, 'runs'))).toEqual([])
})

test.each([
  ['one commit after the other', false],
  ['commits that share a transaction', true],
])('32 KiB rest, and one byte more brings the whole log to its file: %s', async (_name, together) => {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  const events = [0, 1, 2, 3].map((index) => eventOf(index, SMALL_LOG_BYTES_MAX / 4))
  const commits = events.map((event) => () => append(store, [event]))
  if (together) await Promise.all(commits.map((commit) => commit()))
  else for (const commit of commits) await commit()
  expect(store.events.storedBytes(runId(1))).toBe(SMALL_LOG_BYTES_MAX)
  // The next index is known without the small log of another run.
  await append(store, logEvents(runId(2), 0, 1), runId(2))
  expect(existsSync(fileOf(dataDir))).toBe(false)

  const more = eventOf(4, linesOf([logEvent(runId(1), 4, '')]).length)
  await append(store, [more])
  expect(await readEvents(store.events, runId(1))).toEqual([...events, more])
  expect(store.events.storedBytes(runId(1))).toBe(linesOf([...events, more]).length)
  await until('the log is in its file', () => existsSync(fileOf(dataDir)))
  const last = eventOf(5, 200)
  await append(store, [last])
  expect(await readEvents(store.events, runId(1), { after: 3 })).toEqual([more, last])
  // The second move to the file begins when the first is on disk.
  await until(
    'the file is whole',
    () => readFileSync(fileOf(dataDir), 'utf8') === linesOf([...events, more, last]),
  )
  await store.close()
  expect(await chunksIn(dataDir, 'events-small')).toBe(1)
})

test('a log that became large is whole when the process ends before its file is written', async () => {
  const dataDir = diskFolder()
  const events = [eventOf(0, 500), eventOf(1, SMALL_LOG_BYTES_MAX), eventOf(2, 300)]
  const first = await openAt(dataDir)
  await Promise.all(events.map((event) => append(first, [event])))
  await first.close()
  const second = await openAt(dataDir)
  expect(second.events.nextIndex(runId(1))).toBe(3)
  expect(await readEvents(second.events, runId(1))).toEqual(events)
  await until('the log is in its file', () => existsSync(fileOf(dataDir)))
  expect(await readEvents(second.events, runId(1))).toEqual(events)
})

const seed = drawSeed()

test(`random appends, readings, removals and restarts agree with a model (SEED=${seed})`, async () => {
  const random = new Random(seed)
  const dataDir = diskFolder()
  const model = new Map<string, RunEvent[]>()
  const ids = [1, 2, 3, 4, 5].map(runId)
  let store = await openAt(dataDir)
  for (let step = 0; step < 300; step++) {
    const id = ids[random.below(ids.length)] ?? runId(1)
    const known = model.get(id) ?? []
    if (random.chance(0.03)) {
      await store.events.remove(id)
      model.delete(id)
    } else if (random.chance(0.05)) {
      await store.close()
      store = await openAt(dataDir)
    } else if (random.chance(0.3)) {
      const after = random.below(known.length + 1) - 1
      expect(await readEvents(store.events, id, { after })).toEqual(known.slice(after + 1))
    } else {
      const count = 1 + random.below(3)
      const bytes = random.chance(0.1) ? 12_000 : 300
      const added = Array.from({ length: count }, (_, at) =>
        logEvent(id, known.length + at, 'x'.repeat(random.below(bytes))),
      )
      await append(store, added, id)
      model.set(id, [...known, ...added])
    }
    expect(store.events.nextIndex(id)).toBe(model.get(id)?.length ?? 0)
    expect(store.events.storedBytes(id)).toBe(linesOf(model.get(id) ?? []).length)
  }
  for (const id of ids) expect(await readEvents(store.events, id)).toEqual(model.get(id) ?? [])
})

test('a run that was said to be new is stored and found like any other', async () => {
  const dataDir = diskFolder()
  const first = await openAt(dataDir)
  // The cast holds because `openAt` opens the store on disk.
  const { eventBuffer, runs } = first.database as LmdbControlDatabase
  for (const id of [runId(1), runId(2)]) {
    first.events.begin(id)
    // What is known here is not looked for on disk.
    expect([eventBuffer.small.remembered(id), runs.unfinished.get(id)]).toEqual([{ next: 0, bytes: 0 }, null])
  }
  for (const [n, id] of [1, 2, 3].map((n) => [n, runId(n)] as const)) {
    await first.database.commit([putRun(sampleRun(n)), putEvents(id, logEvents(id, 0, 2))])
    await first.database.commit([putEvents(id, logEvents(id, 2, 3))])
  }
  await first.database.commit([putRun(sampleRun(1, 'failed')), putRun(sampleRun(3, 'failed'))])
  const found = async ({ database, events }: Store) => ({
    counts: [database.runs.count('queued'), database.runs.count('failed')],
    queued: database.runs.list({ limit: 9, status: ['queued'] }).map(({ id }) => id),
    failed: database.runs.list({ limit: 9, status: ['failed'] }).map(({ id }) => id),
    events: await Promise.all([1, 2, 3].map(async (n) => (await readEvents(events, runId(n))).length)),
  })
  const expected = { counts: [1, 2], queued: [runId(2)], failed: [runId(3), runId(1)], events: [3, 3, 3] }
  expect(await found(first)).toEqual(expected)
  await first.close()
  expect(await found(await openAt(dataDir))).toEqual(expected)
})

test('events of a new run may leave no gap either', async () => {
  const store = await openAt(diskFolder())
  store.events.begin(runId(1))
  await expect(append(store, logEvents(runId(1), 1, 2))).rejects.toThrow()
  await append(store, logEvents(runId(1), 0, 1))
  expect(await readEvents(store.events, runId(1))).toEqual(logEvents(runId(1), 0, 1))
})
