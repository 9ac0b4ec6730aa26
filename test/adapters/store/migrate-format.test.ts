/**
 * Tests that databases of earlier formats keep what they hold and have the new format then: the index by status of
 * format 2, and the actors of runs that had a table of their own until format 4.
 */
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { RUN_STATUSES } from '../../../protocol/run.ts'
import { FORMAT } from '../../../store/lmdb/origin.ts'
import { actorPart, recordPart } from '../../../store/lmdb/run-rows.ts'
import { openStore } from '../../../store/store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { putRun, putSnapshot, runId, sampleRun, sampleSnapshot } from './samples.ts'

const RUNS = 70
const OLD_CODE = { preparing: 'p', running: 'r', finalizing: 'z' } as const

const openAt = (dataDir: string) =>
  openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
  })

/** Gives each run with a worker the entry that it had in format 2. */
async function makeFormat2(dataDir: string): Promise<void> {
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const index = raw.openDB<Uint8Array, string>({ name: 'runs-by-status', encoding: 'binary' })
  for (let n = 0; n < RUNS; n++) {
    const status = statusOf(n)
    if (!(status in OLD_CODE)) continue
    await index.remove(`a${runId(n)}`)
    await index.put(OLD_CODE[status as keyof typeof OLD_CODE] + runId(n), Buffer.from([0]))
  }
  await raw.openDB<string, string>({ name: 'meta', encoding: 'string' }).put('format', '2')
  await raw.close()
}

async function codesIn(dataDir: string): Promise<string> {
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const keys = [...raw.openDB({ name: 'runs-by-status', encoding: 'binary' }).getKeys()].map(String)
  expect(raw.openDB<string, string>({ name: 'meta', encoding: 'string' }).get('format')).toBe(`${FORMAT}`)
  await raw.close()
  expect(keys).toHaveLength(RUNS)
  return [...new Set(keys.map((key) => key.charAt(0)))].join('')
}

const statusOf = (n: number) => RUN_STATUSES[n % RUN_STATUSES.length] ?? 'queued'

test('runs of format 2 are listed by their status, and those with a worker leave the old index', async () => {
  const dataDir = diskFolder()
  const first = await openAt(dataDir)
  const runs = Array.from({ length: RUNS }, (_, n) => sampleRun(n, statusOf(n)))
  await first.database.commit(runs.map(putRun))
  await first.close()
  await makeFormat2(dataDir)

  const { database, close } = await openAt(dataDir)
  const newest = runs.toReversed()
  for (const status of RUN_STATUSES) {
    expect(database.runs.list({ status: [status] })).toEqual(newest.filter((run) => run.status === status))
    expect(database.runs.count(status)).toBe(RUNS / RUN_STATUSES.length)
  }
  const [changed] = runs.filter(({ status }) => status === 'running')
  if (changed === undefined) throw new Error('no run is running')
  await database.commit([putRun({ ...changed, status: 'finalizing' })])
  expect(database.runs.list({ status: ['finalizing'] }).map(({ id }) => id)).toContain(changed.id)
  await close()
  expect(await codesIn(dataDir)).toBe('acfqx')
})

/** Gives the actor of each run the row that it had in format 3. */
async function makeFormat3(dataDir: string): Promise<void> {
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  const runs = raw.openDB<Uint8Array, string>({ name: 'runs', encoding: 'binary' })
  const actors = raw.openDB<Uint8Array, string>({ name: 'life:run', encoding: 'binary' })
  for (const { key, value } of [...runs.getRange()]) {
    const actor = actorPart(key, value)
    if (actor === undefined) continue
    await actors.put(key, Buffer.from(actor))
    await runs.put(key, Buffer.from(recordPart(key, value)))
  }
  await raw.openDB<string, string>({ name: 'meta', encoding: 'string' }).put('format', '3')
  await raw.close()
}

test('actors of runs in format 3 move to the rows of their runs', async () => {
  const dataDir = diskFolder()
  const first = await openAt(dataDir)
  const runs = Array.from({ length: RUNS }, (_, n) => sampleRun(n, statusOf(n)))
  const live = runs.filter(({ status }) => ['queued', 'preparing', 'running', 'finalizing'].includes(status))
  await first.database.commit([
    ...runs.map(putRun),
    ...live.map(({ id }, n) => putSnapshot('run', id, sampleSnapshot(n))),
  ])
  await first.close()
  await makeFormat3(dataDir)

  for (let start = 0; start < 2; start++) {
    const { database, close } = await openAt(dataDir)
    expect([...database.snapshots.all('run')]).toEqual(live.map(({ id }, n) => [id, sampleSnapshot(n)]))
    expect(database.runs.list({})).toEqual(runs.toReversed())
    await close()
  }
  const raw = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  expect(raw.openDB({ name: 'life:run', encoding: 'binary' }).getCount()).toBe(0)
  await raw.close()
  expect(await codesIn(dataDir)).toBe('acfqx')
})
