/** Tests how events move from the database to their files, and the effect of crashes, hand edits and full disks. */
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { EventQuery } from '../../../core/ports/store.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { EventLogsOnDisk } from '../../../store/files/event-log.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { FORMAT } from '../../../store/lmdb/origin.ts'
import { openStore } from '../../../store/store.ts'
import { readEvents } from '../../support/event-batches.ts'
import { createFastClock } from '../../support/fast-clock.ts'
import { Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { identifyDatabase, logEvent, putEvents, runId } from './samples.ts'

interface EventStore {
  readonly folder: string
  readonly runs: string
  readonly database: LmdbControlDatabase
  readonly events: EventLogsOnDisk
  readonly log: ReturnType<typeof createRecordingLog>
  close(): Promise<void>
}

const opened: EventStore[] = []

function openEvents(
  folder = diskFolder(),
  runs = join(folder, 'runs'),
  bufferBytesMax?: number,
  clock: Clock = realClock,
): EventStore {
  mkdirSync(runs, { recursive: true })
  const log = createRecordingLog()
  const database = new LmdbControlDatabase({
    folder: join(folder, 'state'),
    clock,
    log,
    meters: noMeters,
    emergencySpaceBytes: 0,
    identifyDatabase,
  })
  const events = new EventLogsOnDisk({
    runs,
    database,
    clock,
    log,
    ...(bufferBytesMax === undefined ? {} : { bufferBytesMax }),
  })
  const close = async () => {
    events.stop()
    await database.close()
    await events.settled()
  }
  const made = { folder, runs, database, events, log, close }
  opened.push(made)
  return made
}

/** A store with a fast clock, for tests that only await the final state. */
const openFastEvents = (folder?: string, runs?: string) =>
  openEvents(folder, runs, undefined, createFastClock(20))

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

/** Events of which two are too large for a small log. */
const logEvents = (run: string, from: number, to: number): RunEvent[] =>
  Array.from({ length: to - from }, (_, i) =>
    logEvent(run, from + i, `line ${from + i} ${'x'.repeat(20_000)}`),
  )
const fileOf = ({ runs }: EventStore, id = runId(1)) => join(runs, id, 'events.jsonl')
const linesOf = (events: readonly RunEvent[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('')
const untilFlushed = ({ database }: EventStore) =>
  until('the buffer is empty', () => database.eventBuffer.runs.size === 0)
const put = ({ database }: EventStore, from: number, to: number, id = runId(1)) =>
  database.commit([putEvents(id, logEvents(id, from, to))])

/** A closed store whose first run has three events in its file. */
async function withThreeEvents(): Promise<EventStore> {
  const first = openFastEvents()
  await put(first, 0, 3)
  await untilFlushed(first)
  await first.close()
  return first
}

test('events are in the database first, and in the file of their run once the run is quiet', async () => {
  const store = openEvents()
  await put(store, 0, 2)
  expect(existsSync(fileOf(store))).toBe(false)
  await put(store, 2, 3)
  await untilFlushed(store)
  expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(logEvents(runId(1), 0, 3)))
  expect((statSync(fileOf(store)).mode & 0o777).toString(8)).toBe('600')
  expect(store.database.eventBuffer.keysOf(runId(1))).toEqual([])
  expect(store.database.eventBuffer.bytes).toBe(0)
  expect(store.events.nextIndex(runId(1))).toBe(3)
  await store.close()
  const again = openEvents(store.folder)
  expect(again.events.nextIndex(runId(1))).toBe(3)
  await put(again, 3, 5)
  expect(await readEvents(again.events, runId(1))).toEqual(logEvents(runId(1), 0, 5))
  expect(await readEvents(again.events, runId(1), { after: 1, limit: 2 })).toEqual(logEvents(runId(1), 2, 4))
})

test('the end of a log of 300 MB is read without the rest of it', async () => {
  const store = openEvents()
  const count = 4_800
  mkdirSync(join(store.runs, runId(1)))
  const file = openSync(fileOf(store), 'w')
  let bytes = 0
  for (let n = 0; n < count; n++)
    bytes += writeSync(file, linesOf([logEvent(runId(1), n, `${n} ${'x'.repeat(64 * 1024)}`)]))
  closeSync(file)
  expect(bytes).toBeGreaterThan(300_000_000)
  const record = { bytes, next: count }
  await store.database.commitPuts([{ to: 'event-file', key: runId(1), record, moved: 0 }])
  await put(store, count, count + 3)
  const indexesOf = async (query: EventQuery) =>
    (await readEvents(store.events, runId(1), query)).map(({ index }) => index)
  const before = readBytesOfProcess()
  expect(await indexesOf({ after: count - 4, before: count + 3 })).toEqual(
    [-3, -2, -1, 0, 1, 2].map((n) => count + n),
  )
  expect(await indexesOf({ after: 1_999, before: 2_002 })).toEqual([2_000, 2_001])
  expect(readBytesOfProcess() - before).toBeLessThan(8 * 1024 * 1024)
})

/** The bytes that this process has read so far. */
function readBytesOfProcess(): number {
  return Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])
}

test('events that a process leaves in the buffer are flushed by the next one', async () => {
  const first = openEvents()
  await put(first, 0, 4)
  await first.close()
  expect(existsSync(fileOf(first))).toBe(false)
  const second = openEvents(first.folder)
  expect(second.events.nextIndex(runId(1))).toBe(4)
  await untilFlushed(second)
  expect(readFileSync(fileOf(second), 'utf8')).toBe(linesOf(logEvents(runId(1), 0, 4)))
})

test.each([
  ['half a line', '{"runId":"x","index":3,"ty'],
  ['a chunk that is still in the buffer', linesOf(logEvents(runId(1), 3, 5))],
  ['zeros', '\0'.repeat(5_000)],
])('%s after the valid part of a file is cut off before the next write', async (_name, behind) => {
  const { folder } = await withThreeEvents()
  const store = openFastEvents(folder)
  appendFileSync(fileOf(store), behind)
  expect(await readEvents(store.events, runId(1))).toEqual(logEvents(runId(1), 0, 3))
  await put(store, 3, 5)
  await untilFlushed(store)
  expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(logEvents(runId(1), 0, 5)))
})

test.each<[string, (path: string) => void, number[]]>([
  ['that lost half a line', (path) => truncateSync(path, statSync(path).size - 5), [0, 1, 2]],
  ['that lost two lines and a half', (path) => truncateSync(path, 10), [2]],
  ['that is empty', (path) => truncateSync(path, 0), [2]],
  ['that is gone', (path) => rmSync(path), [2]],
])(
  'a file %s: the log states how much is missing, and later events keep their index',
  async (_name, harm, indexes) => {
    for (const how of ['read first', 'written first']) {
      const { folder } = await withThreeEvents()
      const store = openFastEvents(folder)
      const { size } = statSync(fileOf(store))
      harm(fileOf(store))
      if (how === 'read first') await readEvents(store.events, runId(1))
      expect(store.events.nextIndex(runId(1))).toBe(3)
      await put(store, 3, 5)
      await untilFlushed(store)
      const found = await readEvents(store.events, runId(1))
      expect(found.map(({ index }) => index)).toEqual([...indexes, 3, 4])
      const left = linesOf(found.slice(0, -3)).length
      expect(found.at(-3)).toMatchObject({
        type: 'log',
        stream: 'system',
        text: expect.stringContaining(`missing: the file has ${size - left} bytes less`),
      })
      expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(found))
      expect(await readEvents(store.events, runId(1), { after: 3 })).toEqual(logEvents(runId(1), 4, 5))
      await store.close()
    }
  },
)

test('a log that cannot be read at the moment keeps no other from being checked', async () => {
  const store = openFastEvents()
  for (const n of [1, 2]) await put(store, 0, 3, runId(n))
  await untilFlushed(store)
  rmSync(fileOf(store))
  // To open it fails with a code that says nothing lasting of a file.
  const socket = createServer().listen(fileOf(store))
  await once(socket, 'listening')
  writeFileSync(fileOf(store, runId(2)), 'x'.repeat(statSync(fileOf(store, runId(2))).size))
  await store.events.findDamage()
  socket.close()
  expect(store.database.damage.all().map(({ id }) => id)).toEqual([`events ${runId(2)} 0`])
  expect(store.log.lines).toContainEqual(
    expect.objectContaining({ fields: { logs: 1, reason: expect.stringContaining('ENXIO') } }),
  )
})

test('a large buffer is flushed while it grows, and any index is found in a large log', async () => {
  const store = openEvents()
  const random = new Random(5)
  const all = Array.from({ length: 4_000 }, (_, n) =>
    logEvent(runId(1), n, 'y'.repeat(random.chance(0.01) ? 300_000 : random.below(900))),
  )
  for (let from = 0; from < all.length; from += 100) {
    await store.database.commit([putEvents(runId(1), all.slice(from, from + 100))])
    if (from % 1_000 === 0) await until('some events are in the file', () => existsSync(fileOf(store)))
  }
  for (const after of [
    -1,
    0,
    1_999,
    3_998,
    3_999,
    ...Array.from({ length: 40 }, () => random.below(4_000)),
  ]) {
    const found = await readEvents(store.events, runId(1), { after, limit: 2 })
    expect(found.map(({ index }) => index)).toEqual([after + 1, after + 2].filter((index) => index < 4_000))
  }
  await untilFlushed(store)
  expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(all))
})

test('many runs are all flushed, a few files at a time, also when the buffer is above its limit', async () => {
  for (const bufferBytesMax of [undefined, 1_000]) {
    const store = openEvents(diskFolder(), undefined, bufferBytesMax)
    const ids = Array.from({ length: 400 }, (_, n) => runId(n))
    let most = 0
    for (let from = 0; from < 3; from++) {
      await Promise.all(ids.map((id) => put(store, from, from + 1, id)))
      most = Math.max(most, filesOpenIn(store.runs))
    }
    await until(
      'the buffer is empty',
      () => {
        most = Math.max(most, filesOpenIn(store.runs))
        return store.database.eventBuffer.runs.size === 0
      },
      100_000,
    )
    expect(most).toBeLessThanOrEqual(4)
    for (const id of ids) expect(readFileSync(fileOf(store, id), 'utf8')).toBe(linesOf(logEvents(id, 0, 3)))
    await store.close()
  }
}, 240_000)

test('a file that cannot be written delays no other run, and is written once possible', async () => {
  const store = openFastEvents()
  mkdirSync(fileOf(store), { recursive: true })
  await put(store, 0, 2)
  await put(store, 0, 2, runId(2))
  await until('the other run is flushed', () => existsSync(fileOf(store, runId(2))))
  await until('the failed move is logged', () =>
    store.log.lines.some(({ message }) => message.includes('could not be moved')),
  )
  expect(store.events.nextIndex(runId(1))).toBe(2)
  rmdirSync(fileOf(store))
  await untilFlushed(store)
  expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(logEvents(runId(1), 0, 2)))
  expect(store.database.state()).toEqual({ is: 'ready' })
})

test('a disk without space for files is full although commits succeed; events move once there is space', async () => {
  const mounted = diskFolder()
  // Only root may mount a disk; for other users the test does nothing.
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', mounted]).status !== 0) return
  const store = openFastEvents(join(mounted, 'state'), mounted)
  try {
    await put(store, 0, 1, runId(2))
    const states: string[] = []
    store.database.onState(({ is }) => states.push(is))
    const filler = join(mounted, 'filler')
    spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k'])
    const all = Array.from({ length: 50 }, (_, n) => logEvent(runId(1), n, 'x'.repeat(10_000)))
    await store.database.commit([putEvents(runId(1), all)])
    await until('the full disk is noticed', () => store.database.state().is === 'degraded')
    expect(await readEvents(store.events, runId(1))).toEqual(all)
    await put(store, 1, 2, runId(2))
    expect(store.database.state().is).toBe('degraded')
    rmSync(filler)
    await untilFlushed(store)
    expect(states).toEqual(['degraded', 'ready'])
    expect(readFileSync(fileOf(store), 'utf8')).toBe(linesOf(all))
  } finally {
    await store.close()
    execFileSync('umount', [mounted])
  }
})

test('a run is removed from buffer, record and folder, also during a flush', async () => {
  const store = openFastEvents()
  const ids = Array.from({ length: 40 }, (_, n) => runId(n))
  await Promise.all(ids.map((id) => put(store, 0, 2, id)))
  await until('some runs are flushed', () => readdirSync(store.runs).length > 0)
  await Promise.all(ids.map((id) => store.events.remove(id)))
  expect(readdirSync(store.runs)).toEqual([])
  expect(store.database.eventBuffer.bytes).toBe(0)
  for (const id of ids) {
    expect(await readEvents(store.events, id)).toEqual([])
    expect(store.events.nextIndex(id)).toBe(0)
  }
  await store.close()
  expect(openEvents(store.folder).database.eventBuffer.runs.size).toBe(0)
})

test('texts that are no run ids never reach the disk', async () => {
  const { events } = openEvents()
  for (const id of ['..', '../x', 'a/b', '']) {
    await expect(readEvents(events, id)).rejects.toThrow(TypeError)
    await expect(events.remove(id)).rejects.toThrow(TypeError)
  }
})

test('files of the old format are migrated up to their last whole event', async () => {
  const dataDir = diskFolder()
  const options = {
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  }
  await (await openStore(options)).close()
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const meta = raw.openDB<string, string>({ name: 'meta', encoding: 'string' })
  await meta.put('format', '1')
  await raw.close()
  const path = join(dataDir, 'runs', runId(1), 'events.jsonl')
  mkdirSync(join(dataDir, 'runs', runId(1)))
  mkdirSync(join(dataDir, 'runs', 'not a run'))
  mkdirSync(join(dataDir, 'runs', runId(2)))
  writeFileSync(path, `${linesOf(logEvents(runId(1), 0, 3))}{"runId":"x","ind`)

  const store = await openStore(options)
  expect(store.events.nextIndex(runId(1))).toBe(3)
  expect(store.events.nextIndex(runId(2))).toBe(0)
  await store.database.commit([putEvents(runId(1), logEvents(runId(1), 3, 4))])
  expect(await readEvents(store.events, runId(1))).toEqual(logEvents(runId(1), 0, 4))
  await until(
    'the event is in the file',
    () => readFileSync(path, 'utf8') === linesOf(logEvents(runId(1), 0, 4)),
  )
  await store.close()
  const again = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  expect(again.openDB<string, string>({ name: 'meta', encoding: 'string' }).get('format')).toBe(`${FORMAT}`)
  await again.close()
})

function filesOpenIn(folder: string): number {
  const listed = spawnSync('ls', ['-l', `/proc/${process.pid}/fd`]).stdout.toString()
  return listed.split('\n').filter((line) => line.includes(`${folder}/`)).length
}
