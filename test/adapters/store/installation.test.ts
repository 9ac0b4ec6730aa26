/** Tests of opening a data directory whose database is missing, emptied, foreign, restored or of an earlier version. */
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { open as openLmdb } from 'lmdb'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Store } from '../../../core/ports/store.ts'
import { DatabaseLost } from '../../../store/errors.ts'
import { openStore } from '../../../store/store.ts'
import { EMPTIED, openWorkerStore } from '../../../store/worker-store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { putRun, runId, sampleRun } from './samples.ts'

const log = createRecordingLog()
const options = { clock: realClock, random: realRandom, log, meters: noMeters, emergencySpaceBytes: 0 }
const open = (dataDir: string): Promise<Store> => openStore({ dataDir, ...options })
const openWorker = (dataDir: string) => openWorkerStore({ dataDir, ...options })

const fileOf = (dataDir: string) => join(dataDir, 'installation.json')
const recordedId = (dataDir: string): string => JSON.parse(readFileSync(fileOf(dataDir), 'utf8')).id
const stateOf = (dataDir: string) => join(dataDir, 'state')
const dataOf = (dataDir: string) => join(stateOf(dataDir), 'data.mdb')

/** Creates a data directory with one run in its database. */
async function usedDirectory(): Promise<string> {
  const dataDir = diskFolder()
  const store = await open(dataDir)
  await store.database.commit([putRun(sampleRun(1))])
  await store.close()
  return dataDir
}

/** Removes the id from the database and its record, as if an earlier version had written both. */
async function forgetId(dataDir: string): Promise<void> {
  rmSync(fileOf(dataDir), { force: true })
  const root = openLmdb({ path: stateOf(dataDir), noSubdir: false, overlappingSync: false })
  await root.openDB<string, string>({ name: 'meta', encoding: 'string' }).remove('installation')
  await root.close()
}

async function messageOf(opening: Promise<unknown>): Promise<string> {
  const error = await opening.catch((caught: unknown) => caught)
  if (!(error instanceof DatabaseLost)) throw error
  return error.message
}

async function expectRun(dataDir: string): Promise<string> {
  const store = await open(dataDir)
  expect(store.database.runs.get(runId(1))).toEqual(sampleRun(1))
  await store.close()
  return store.installation
}

test('a new directory gets an id, and keeps it', async () => {
  const dataDir = await usedDirectory()
  const id = recordedId(dataDir)
  expect(id).toMatch(/^in-[0-9a-f]{16}$/)
  expect(await expectRun(dataDir)).toBe(id)
  expect(recordedId(await usedDirectory())).not.toBe(id)
})

test('a directory of an earlier version gets an id on its first open', async () => {
  const dataDir = await usedDirectory()
  await forgetId(dataDir)
  const id = await expectRun(dataDir)
  expect(recordedId(dataDir)).toBe(id)
  expect(await expectRun(dataDir)).toBe(id)
})

const losses: readonly (readonly [string, (dataDir: string) => void])[] = [
  ['a truncated database', (dataDir) => truncateSync(dataOf(dataDir), 0)],
  ['a database file that was removed', (dataDir) => rmSync(dataOf(dataDir))],
  ['a removed folder', (dataDir) => rmSync(stateOf(dataDir), { recursive: true })],
]

test.each(losses)('%s is refused and nothing is created', async (_what, lose) => {
  const dataDir = await usedDirectory()
  lose(dataDir)
  const hadFolder = existsSync(stateOf(dataDir))
  const message = await messageOf(open(dataDir))
  expect(message).toContain(`cp -a BACKUP/. ${stateOf(dataDir)}`)
  expect(existsSync(stateOf(dataDir))).toBe(hadFolder)
  await messageOf(open(dataDir))
})

test.each(losses)('%s is refused after a damaged record too', async (_what, lose) => {
  const dataDir = await usedDirectory()
  lose(dataDir)
  writeFileSync(fileOf(dataDir), '')
  await messageOf(open(dataDir))
})

/** Removes the end of the file, but not what LMDB reads first. */
const truncate = (dataDir: string) => truncateSync(dataOf(dataDir), 3 * 4096)

const commandIn = (message: string): string => /"([^"]+)"/.exec(message)?.[1] ?? ''

test('a database file that is truncated is refused, and its backup opens with the command of the message', async () => {
  const dataDir = await usedDirectory()
  const id = recordedId(dataDir)
  cpSync(stateOf(dataDir), join(dataDir, 'backup'), { recursive: true })
  truncate(dataDir)
  const message = await messageOf(open(dataDir))
  expect(message).toContain(`${dataOf(dataDir)} is truncated: it has 12288 bytes`)
  expect(await messageOf(open(dataDir))).toBe(message)
  execFileSync('sh', ['-c', commandIn(message)])
  expect(await expectRun(dataDir)).toBe(id)
  truncate(dataDir)
  // Neither the database that was set aside nor another truncated one is a backup.
  mkdirSync(join(dataDir, 'older'))
  cpSync(dataOf(dataDir), join(dataDir, 'older', 'data.mdb'))
  expect(commandIn(await messageOf(open(dataDir)))).toContain(`cp -a ${join(dataDir, 'backup')}/. `)
})

test('a database that LMDB created and never filled is refused', async () => {
  const dataDir = await usedDirectory()
  rmSync(stateOf(dataDir), { recursive: true })
  const root = openLmdb({ path: stateOf(dataDir), noSubdir: false, overlappingSync: false })
  await root.close()
  await messageOf(open(dataDir))
})

test('the runs of an earlier version show that its database is lost', async () => {
  const dataDir = await usedDirectory()
  cpSync(fileOf(dataDir), join(dataDir, 'runs', 'events.jsonl'))
  await forgetId(dataDir)
  rmSync(stateOf(dataDir), { recursive: true })
  await messageOf(open(dataDir))
})

test('the database of another installation is refused, and accepted once the record is deleted', async () => {
  const [dataDir, foreign] = [await usedDirectory(), await usedDirectory()]
  const foreignId = recordedId(foreign)
  cpSync(stateOf(foreign), stateOf(dataDir), { recursive: true })
  expect(await messageOf(open(dataDir))).toContain(foreignId)
  expect(recordedId(dataDir)).not.toBe(foreignId)
  rmSync(fileOf(dataDir))
  expect(await expectRun(dataDir)).toBe(foreignId)
  expect(recordedId(dataDir)).toBe(foreignId)
})

/** Replaces the database by one from before ids. */
async function swapForEarlier(dataDir: string): Promise<void> {
  const earlier = await usedDirectory()
  await forgetId(earlier)
  cpSync(stateOf(earlier), stateOf(dataDir), { recursive: true })
}

test('a database from before ids is refused where an id is recorded, with the command that keeps it', async () => {
  const dataDir = await usedDirectory()
  await swapForEarlier(dataDir)
  const message = await messageOf(open(dataDir))
  expect(message).toContain(`names ${recordedId(dataDir)}`)
  expect(commandIn(message)).toContain(`mv ${stateOf(dataDir)} ${stateOf(dataDir)}.set-aside && cp -a `)
})

test('a database from before ids is accepted once the record is deleted, whether or not the record is damaged', async () => {
  for (const isDamaged of [false, true]) {
    const dataDir = await usedDirectory()
    await swapForEarlier(dataDir)
    if (isDamaged) writeFileSync(fileOf(dataDir), '')
    await messageOf(open(dataDir))
    rmSync(fileOf(dataDir))
    expect(await expectRun(dataDir)).toBe(recordedId(dataDir))
  }
})

test('a backup is named, and opens once it is restored with the command of the message', async () => {
  const dataDir = await usedDirectory()
  const id = recordedId(dataDir)
  const store = await open(dataDir)
  const backup = join(dataDir, 'state backup')
  await store.database.backup(backup)
  await store.close()
  rmSync(stateOf(dataDir), { recursive: true })
  expect(await messageOf(open(dataDir))).toContain(`cp -a '${backup}'/. ${stateOf(dataDir)}`)
  cpSync(backup, stateOf(dataDir), { recursive: true })
  expect(await expectRun(dataDir)).toBe(id)
})

test('a record that was deleted or damaged is written again from the database', async () => {
  const dataDir = await usedDirectory()
  const id = recordedId(dataDir)
  rmSync(fileOf(dataDir))
  expect(await expectRun(dataDir)).toBe(id)
  expect(recordedId(dataDir)).toBe(id)
  writeFileSync(fileOf(dataDir), '{"id":"in-')
  expect(await expectRun(dataDir)).toBe(id)
  expect(recordedId(dataDir)).toBe(id)
})

test('a worker goes on without its database, and its log says what is lost', async () => {
  const dataDir = diskFolder()
  await (await openWorker(dataDir)).close()
  const id = recordedId(dataDir)
  expect(log.lines.filter(({ message }) => message === EMPTIED)).toEqual([])
  rmSync(stateOf(dataDir), { recursive: true })
  await (await openWorker(dataDir)).close()
  expect(log.lines.filter(({ message }) => message === EMPTIED)).toMatchObject([{ level: 'error' }])
  expect(recordedId(dataDir)).toBe(id)
})

test('a credential shows that a worker of an earlier version lost its database', async () => {
  const dataDir = diskFolder()
  writeFileSync(join(dataDir, 'credential.json'), '{}')
  const before = log.lines.length
  await (await openWorker(dataDir)).close()
  expect(log.lines.slice(before).map(({ message }) => message)).toContain(EMPTIED)
})

test('a worker refuses the database of another worker', async () => {
  const [dataDir, foreign] = [diskFolder(), diskFolder()]
  for (const each of [dataDir, foreign]) await (await openWorker(each)).close()
  cpSync(stateOf(foreign), stateOf(dataDir), { recursive: true })
  await messageOf(openWorker(dataDir))
})

test('a worker whose database file is truncated refuses it, and goes on once the folder is moved away', async () => {
  const dataDir = diskFolder()
  await (await openWorker(dataDir)).close()
  truncate(dataDir)
  expect(await messageOf(openWorker(dataDir))).toContain(`move ${stateOf(dataDir)} away and start again`)
  renameSync(stateOf(dataDir), `${stateOf(dataDir)}.old`)
  await (await openWorker(dataDir)).close()
})
