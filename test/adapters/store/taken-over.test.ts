/**
 * A store whose data directory was taken over changes no byte of it any more, neither in the database nor in the files
 * beside it.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { removeLaunch, writeLaunch } from '../../../bin/programs/serve/launch-file.ts'
import { isTakenOver } from '../../../core/owner.ts'
import type { StoreState } from '../../../core/ports/store.ts'
import { DataDirInUse, StoreBroken } from '../../../store/errors.ts'
import { acquireLock } from '../../../store/lock.ts'
import { openStore } from '../../../store/store.ts'
import { openWorkerStore } from '../../../store/worker-store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { readFilesBelow } from '../../support/secret-sweep.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { logEvents, putEvents, putSnapshot, runId, sampleSnapshot } from './samples.ts'

const options = () => ({
  dataDir: diskFolder(),
  clock: realClock,
  random: realRandom,
  log: createRecordingLog(),
  meters: noMeters,
  emergencySpaceBytes: 0,
})
const LAUNCH = { pid: 1, version: '1', startedAt: '', url: '', token: '' }
const TAKEN_OVER = {
  is: 'broken',
  takenOver: true,
  reason: expect.stringMatching(
    /^another switchyard has taken over .* on forge, since 2026-.* writes nothing more$/,
  ),
}

/** Does what the process of another machine does that starts with `--take-over`. */
function takeOver(dataDir: string): void {
  const owner: object = JSON.parse(readFileSync(join(dataDir, 'lock.1'), 'utf8'))
  const taker = {
    ...owner,
    nonce: '00',
    boot: 'another',
    hostname: 'forge',
    since: '2026-03-01T08:00:00.000Z',
  }
  writeFileSync(join(dataDir, 'lock.2'), JSON.stringify(taker))
  rmSync(join(dataDir, 'lock.1'))
}

/** Returns every file but the one in which LMDB registers readers. */
const contentOf = (dataDir: string) => readFilesBelow(dataDir).filter(([path]) => !path.endsWith('lock.mdb'))

test('a host commits nothing more and writes to no file', async () => {
  const place = options()
  const { dataDir } = place
  const store = await openStore(place)
  const { database, artifacts, usage, config, credentialRecords } = store
  // Too many for a small log, so the flusher would soon write them to a file.
  await database.commit([putEvents(runId(1), logEvents(runId(1), 0, 1_000))])
  await writeLaunch(dataDir, LAUNCH, database)
  takeOver(dataDir)
  const before = contentOf(dataDir)

  const refused = await Promise.allSettled([
    database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))]),
    artifacts.write(runId(1), 'a', 0, Buffer.from('a'), true),
    artifacts.remove(runId(1)),
    store.events.remove(runId(1)),
    usage.replace({ projectKey: 'p', sessionId: 's' }, '{}'),
    config.replace(undefined, '{}'),
    config.saveCopy('{}'),
    credentialRecords.replace({}),
  ])
  const reasons = refused.map((each) => (each.status === 'rejected' ? each.reason : 'accepted'))
  expect(reasons).toEqual(refused.map(() => expect.any(StoreBroken)))
  expect(database.state()).toEqual(TAKEN_OVER)
  await writeLaunch(dataDir, { ...LAUNCH, pid: 2 }, database)
  await removeLaunch(dataDir, database)
  await store.close()
  expect(contentOf(dataDir)).toEqual(before)
})

test('events that wait for their file stay in the database of the new owner', async () => {
  const place = options()
  const store = await openStore(place)
  await store.database.commit([putEvents(runId(1), logEvents(runId(1), 0, 1_000))])
  takeOver(place.dataDir)
  const before = contentOf(place.dataDir)
  await until('the loss is noticed without a commit', () => place.log.lines.length > 0)
  expect(store.database.state()).toEqual(TAKEN_OVER)
  await store.close()
  expect(contentOf(place.dataDir)).toEqual(before)
})

test('a worker commits nothing more', async () => {
  const place = options()
  const store = await openWorkerStore(place)
  takeOver(place.dataDir)
  const before = contentOf(place.dataDir)
  await expect(store.commit([putSnapshot('execution', 'a', sampleSnapshot(1))])).rejects.toThrow(StoreBroken)
  expect(store.state()).toEqual(TAKEN_OVER)
  await store.close()
  expect(contentOf(place.dataDir)).toEqual(before)
})

type Opened = readonly [state: () => StoreState, commit: () => Promise<void>, close: () => Promise<void>]

const OPENERS: [string, (place: ReturnType<typeof options>) => Promise<Opened>][] = [
  [
    'host',
    async (place) => {
      const { database, close } = await openStore(place)
      return [
        () => database.state(),
        () => database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))]),
        close,
      ]
    },
  ],
  [
    'worker',
    async (place) => {
      const { state, commit, close } = await openWorkerStore(place)
      return [state, () => commit([putSnapshot('execution', 'a', sampleSnapshot(1))]), close]
    },
  ],
]
const SPOILED: [string, (file: string) => void][] = [
  ['removed', (file) => rmSync(file)],
  ['emptied', (file) => writeFileSync(file, '')],
  ['replaced by its copy', (file) => writeFileSync(file, removed(file))],
]

function removed(file: string): string {
  const text = readFileSync(file, 'utf8')
  rmSync(file)
  return text
}

describe.each(OPENERS)('a %s', (_who, open) => {
  test.each(SPOILED)('whose lock file was %s writes it anew and goes on', async (_how, spoil) => {
    const place = options()
    const [state, commit, close] = await open(place)
    spoil(join(place.dataDir, 'lock.1'))
    await commit()
    expect(state()).toEqual({ is: 'ready' })
    expect(place.log.lines).toContainEqual(expect.objectContaining({ level: 'warn' }))
    const [name = ''] = readdirSync(place.dataDir).filter((entry) => entry.startsWith('lock.'))
    expect(JSON.parse(readFileSync(join(place.dataDir, name), 'utf8'))).toMatchObject({ pid: process.pid })
    await expect(open(place)).rejects.toThrow(DataDirInUse)
    await close()
    const [, , closeAgain] = await open(place)
    await closeAgain()
  })
})

test('a lock file is not written into a folder that took the place of the data directory', () => {
  const dataDir = diskFolder()
  const lock = acquireLock(dataDir, { clock: realClock, random: realRandom })
  renameSync(dataDir, `${dataDir}-away`)
  mkdirSync(dataDir)
  expect(lock.findLoss()).toContain('was removed')
  expect(readdirSync(dataDir)).toEqual([])
})

test('a store that was broken before says that it was taken over', async () => {
  const { dataDir, ...place } = options()
  const store = await openStore({ dataDir, ...place })
  rmSync(join(dataDir, 'state'), { recursive: true })
  await until('the loss of the file is noticed', () => store.database.state().is === 'broken')
  expect(isTakenOver(store.database.state())).toBe(false)
  takeOver(dataDir)
  await until('the new owner is noticed', () => isTakenOver(store.database.state()))
  expect(store.database.state()).toMatchObject(TAKEN_OVER)
  await store.close()
})
