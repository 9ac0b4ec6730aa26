/** Tests that damaged rows and events are named, and never read as absent, shorter or older. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { DAMAGE_CURE, DamagedRecord } from '../../../core/damage.ts'
import type { Store } from '../../../core/ports/store.ts'
import type { RunEvent } from '../../../protocol/run.ts'
import { StoreBroken } from '../../../store/errors.ts'
import { setAsideEvents } from '../../../store/files/event-file.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { crc32, crc32InScript } from '../../../store/lmdb/file-sums.ts'
import { readEvents } from '../../support/event-batches.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { changeRow, createWholeDirectory, flipBit, garblePage, openAt, pagesOf } from './damage.ts'
import {
  logEvents,
  putEvents,
  putKeyValue,
  putRun,
  putSnapshot,
  runId,
  sampleRun,
  sampleSnapshot,
} from './samples.ts'

async function withRuns(): Promise<string> {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  await store.database.commit([
    putRun(sampleRun(1, 'completed')),
    putRun(sampleRun(2)),
    putSnapshot('run', runId(2), sampleSnapshot(2)),
    putRun(sampleRun(3, 'failed')),
    putSnapshot('worker', 'wk-1', sampleSnapshot(1)),
    putSnapshot('worker', 'wk-2', sampleSnapshot(2)),
    putKeyValue('memory', 'web', { facts: ['one'] }),
    putKeyValue('memory', 'api', { facts: ['two'] }),
  ])
  for (let n = 0; n < 3; n++)
    await store.database.commit([putEvents(runId(1), logEvents(runId(1), n * 2, n * 2 + 2))])
  await store.close()
  return dataDir
}

const idsOf = ({ database }: Store): string[] => database.damage.all().map(({ id }) => id)

test('the checksums of Node and of the script are the same', () => {
  for (const text of ['', 'a', 'ünïcödé'.repeat(99)]) expect(crc32InScript(text, 7)).toBe(crc32(text, 7))
})

test.each([1, 2])('run %i with a flipped bit is named, and the list has the rest', async (n) => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'runs', runId(n), flipBit)
  const store = await openAt(dataDir)
  const { runs } = store.database
  expect(runs.list({}).map(({ id }) => id)).toEqual([3, 2, 1].filter((each) => each !== n).map(runId))
  expect(() => runs.get(runId(n))).toThrow(DamagedRecord)
  expect(idsOf(store)).toEqual([`run ${runId(n)}`])
  expect([runs.damagedOf(`t-${n}`), runs.damagedOf('t-3')]).toEqual([[runId(n)], []])
  expect(runs.count()).toBe(3)
  expect([...store.database.snapshots.all('run')]).toEqual([
    [runId(2), n === 2 ? { damaged: expect.stringContaining(runId(2)) } : sampleSnapshot(2)],
  ])
  await store.close()
})

test('a run that lies under the key of another is damaged, and so is one that an index names and that is missing', async () => {
  const dataDir = await withRuns()
  let row = Buffer.alloc(0)
  await changeRow(dataDir, 'runs', runId(3), (found) => {
    row = Buffer.from(found)
    return null
  })
  await changeRow(dataDir, 'runs', runId(9), () => row)
  const store = await openAt(dataDir)
  expect(() => store.database.runs.get(runId(3))).toThrow(DamagedRecord)
  expect(() => store.database.runs.get(runId(9))).toThrow(DamagedRecord)
  expect(store.database.runs.get(runId(8))).toBeUndefined()
  expect(store.database.runs.list({}).map(({ id }) => id)).toEqual([runId(2), runId(1)])
  await store.close()
})

test('a damaged snapshot and a damaged value are named, and those beside them are read', async () => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'life:worker', 'wk-1', flipBit)
  await changeRow(dataDir, 'facts', 'yapi', flipBit)
  const store = await openAt(dataDir)
  const { snapshots, keyValues } = store.database
  expect([...snapshots.all('worker')]).toEqual([
    ['wk-1', { damaged: expect.stringContaining('wk-1') }],
    ['wk-2', sampleSnapshot(2)],
  ])
  expect(() => snapshots.get('worker', 'wk-1')).toThrow(DamagedRecord)
  expect([...keyValues.all('memory')]).toEqual([['web', { facts: ['one'] }]])
  expect(() => keyValues.get('memory', 'api')).toThrow(DamagedRecord)
  expect(idsOf(store).sort()).toEqual(['actor worker wk-1', 'value memory api'])
  await store.database.commit([putKeyValue('memory', 'api', { facts: [] })])
  expect(idsOf(store)).toEqual(['actor worker wk-1'])
  await store.close()
})

test('an unfinished run that has left the index of the unfinished is found, and a damaged index is made again', async () => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'runs-by-status', `q${runId(2)}`, () => null)
  await changeRow(dataDir, 'runs-by-status', `c${runId(2)}`, () => Buffer.from([0]))
  const store = await openAt(dataDir)
  expect([...store.database.snapshots.all('run')]).toEqual([[runId(2), sampleSnapshot(2)]])
  expect(store.database.runs.list({ status: ['queued'] })).toEqual([sampleRun(2)])
  expect(store.database.runs.list({ status: ['completed'] })).toEqual([sampleRun(1, 'completed')])
  expect(idsOf(store)).toEqual([])
  await store.close()
})

test('damaged counts are made again', async () => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'meta', 'counts', flipBit)
  const store = await openAt(dataDir)
  const { runs } = store.database
  expect([runs.count(), runs.count('queued'), runs.count('completed'), runs.count('failed')]).toEqual([
    3, 1, 1, 1,
  ])
  await store.close()
})

test('without the shapes of its records a database is refused', async () => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'meta', 'structures', flipBit)
  await expect(openAt(dataDir)).rejects.toThrow(DAMAGE_CURE)
})

const isLoss = (event: RunEvent | undefined, from: number, to: number): boolean =>
  event?.type === 'log' &&
  event.stream === 'system' &&
  event.index === to &&
  event.text.startsWith(from === to ? `event ${from} of` : `events ${from} to ${to} of`)

test.each([
  ['the first', 0, 0],
  ['a middle', 1, 2],
  ['the last', 2, 4],
])(
  '%s chunk of a small log with a flipped bit is one line that names its events',
  async (_name, n, first) => {
    const dataDir = await withRuns()
    const key = `${runId(1)}!${first.toString(16).padStart(8, '0')}`
    await changeRow(dataDir, 'events-small', key, flipBit)
    const store = await openAt(dataDir)
    const all = logEvents(runId(1), 0, 6)
    expect(store.events.nextIndex(runId(1))).toBe(6)
    const found = await readEvents(store.events, runId(1))
    expect(isLoss(found[n * 2], first, first + 1)).toBe(true)
    expect(found.toSpliced(n * 2, 1)).toEqual(all.toSpliced(n * 2, 2))
    expect(await readEvents(store.events, runId(1), { after: first + 1 })).toEqual(all.slice(first + 2))
    expect(idsOf(store)).toEqual([`events ${runId(1)} ${first}`])
    await store.close()
  },
)

test('a chunk that is missing in the middle of a log is named', async () => {
  const dataDir = await withRuns()
  await changeRow(dataDir, 'events-small', `${runId(1)}!00000002`, () => null)
  const store = await openAt(dataDir)
  const found = await readEvents(store.events, runId(1))
  expect(found.map(({ index }) => index)).toEqual([0, 1, 3, 4, 5])
  expect(isLoss(found[2], 2, 3)).toBe(true)
  await store.close()
})

/** A log of 40 events of a kilobyte, in its file. */
async function withFile(): Promise<{ dataDir: string; path: string; events: RunEvent[] }> {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  const events = logEvents(runId(1), 0, 40).map(
    (event) => ({ ...event, text: 'x'.repeat(1_000) }) as RunEvent,
  )
  for (let n = 0; n < 40; n += 4) await store.database.commit([putEvents(runId(1), events.slice(n, n + 4))])
  const path = join(dataDir, 'runs', runId(1), 'events.jsonl')
  // Bytes that the database does not count yet are written again at the next start.
  await until('the log is in its file', () => bytesInFile(store) >= 40_000)
  await store.close()
  return { dataDir, path, events }
}

/** The bytes of the first run's file that the database counts. */
function bytesInFile({ database }: Store): number {
  if (!(database instanceof LmdbControlDatabase)) throw new Error('the store has another database')
  return database.eventBuffer.record(runId(1)).bytes
}

test('a flipped bit in the text of an event file is named with the events of its part', async () => {
  const { dataDir, path, events } = await withFile()
  const bytes = readFileSync(path)
  const at = Math.floor(bytes.length / 2)
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(path, bytes)
  const store = await openAt(dataDir)
  const found = await readEvents(store.events, runId(1))
  const loss = found.find((event) => event.type === 'log' && event.stream === 'system')
  expect(loss).toBeDefined()
  const rest = found.filter((event) => event !== loss)
  expect(rest.length).toBeGreaterThan(28)
  for (const event of rest) expect(event).toEqual(events[event.index])
  const [damage] = store.database.damage.all()
  expect(damage).toMatchObject({ where: `runs/${runId(1)}/events.jsonl`, runId: runId(1) })
  // A page that begins behind the damage is whole, and one that begins in it says so.
  const index = loss?.index ?? 0
  expect(await readEvents(store.events, runId(1), { after: index })).toEqual(events.slice(index + 1))
  const [first] = await readEvents(store.events, runId(1), { after: index - 1, limit: 1 })
  expect(first).toMatchObject({ index, stream: 'system' })
  await store.close()
})

test('a page that is damaged under an open database ends its use, and names table and cure', async () => {
  const dataDir = await createWholeDirectory()
  const store = await openAt(dataDir)
  const states: string[] = []
  store.database.onState(({ is }) => states.push(is))
  for (const page of pagesOf(dataDir)) garblePage(dataDir, page)
  expect(() => store.database.runs.list({})).toThrow(
    /the table runs.* cannot be read .*switchyard check-data/,
  )
  expect(states).toEqual(['broken'])
  expect(store.database.state()).toMatchObject({ reason: expect.stringContaining(DAMAGE_CURE) })
  await expect(store.database.commit([putRun(sampleRun(9))])).rejects.toThrow(StoreBroken)
  await store.close()
})

test('a start after a use that did not end in order says so', async () => {
  const dataDir = await withRuns()
  const openAndCount = async () => {
    const log = createRecordingLog()
    const store = await openAt(dataDir, log)
    return {
      store,
      words: log.lines.filter(({ message }) => message.includes('that used this database before was killed'))
        .length,
    }
  }
  const first = await openAndCount()
  // As it stands on disk while the database is in use, and after a kill.
  const lastUse = join(dataDir, 'state', 'last-use.json')
  const inUse = readFileSync(lastUse)
  await first.store.close()
  writeFileSync(lastUse, inUse)
  const second = await openAndCount()
  await second.store.close()
  expect([first.words, second.words]).toEqual([0, 1])
})

test('the bytes of damaged events that were set aside are removed with the log', async () => {
  const dataDir = diskFolder()
  const store = await openAt(dataDir)
  const folder = join(dataDir, 'runs', runId(1))
  await setAsideEvents(join(dataDir, 'runs'), { runId: runId(1), first: 4, bytes: Buffer.from('bytes') })
  expect(readdirSync(folder)).toEqual(['events.4.damaged'])
  await store.events.remove(runId(1))
  expect(existsSync(folder)).toBe(false)
  await store.close()
})
