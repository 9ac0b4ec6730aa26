/** Tests that a check of a data directory names each record that is damaged, and calls a whole directory whole. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import { open } from 'lmdb'
import { realRandom } from '../../../bin/process/clock.ts'
import { DAMAGE_CURE } from '../../../core/damage.ts'
import { checkDataDir } from '../../../store/check-data-dir.ts'
import { DatabaseDamaged, NotADataDir } from '../../../store/errors.ts'
import { isSealed } from '../../../store/lmdb/file-sums.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import {
  changeRow,
  createWholeDirectory,
  flipBit,
  garblePage,
  openAt,
  pagesOf,
  WHOLE_RUNS,
} from './damage.ts'
import { runId } from './samples.ts'

const check = (target: string) => checkDataDir(target, { random: realRandom })
const damageOf = async (dataDir: string) => (await check(dataDir)).damage.map(({ id }) => id)

let whole: string
beforeAll(async () => {
  whole = await createWholeDirectory()
})

function copyOfWhole(): string {
  const dataDir = diskFolder()
  cpSync(whole, dataDir, { recursive: true })
  return dataDir
}

test('a whole directory is whole, and so is a copy of its database', async () => {
  expect(await check(whole)).toMatchObject({ damage: [], runs: 40, logFiles: 1, isInUse: false })
  expect(await check(join(whole, 'state'))).toMatchObject({ damage: [], runs: 40 })
  await expect(check(diskFolder())).rejects.toThrow(NotADataDir)
  await expect(check(join(whole, 'installation.json'))).rejects.toThrow(NotADataDir)
})

const event = (n: number) => `${runId(1)}!${n.toString(16).padStart(8, '0')}`

test.each([
  ['run', 'runs', runId(3), `run ${runId(3)}`],
  ['lease', 'life:lease', 'ls-1', 'actor lease ls-1'],
  ['watermark', 'facts', 'mls-1', 'value mark ls-1'],
  ['ticket', 'facts', 'tt-1', 'value ticket t-1'],
  ['chunk of events', 'events-small', event(2), `events ${runId(1)} 2`],
  ['record of a file', 'events-log', runId(2), `events ${runId(2)}`],
  ['table of shapes', 'meta', 'structures', 'row meta structures'],
])('a %s with a flipped bit is named, and nothing else', async (_what, table, key, id) => {
  const dataDir = copyOfWhole()
  await changeRow(dataDir, table, key, flipBit)
  expect(await damageOf(dataDir)).toEqual([id])
})

test.each([
  ['a run that its indexes name', 'runs', runId(3), `run ${runId(3)}`],
  ['an entry of an index', 'runs-by-status', `c${runId(3)}`, 'indexes of runs'],
  ['a chunk in the middle of a log', 'events-small', event(4), `events ${runId(1)} 4`],
  ['the record of a file', 'events-log', runId(2), `events ${runId(2)}`],
])('%s that is missing is named', async (_what, table, key, id) => {
  const dataDir = copyOfWhole()
  await changeRow(dataDir, table, key, () => null)
  expect(await check(dataDir)).toMatchObject({ damage: [{ id }], toSetAside: [] })
})

test('damaged files are named', async () => {
  const dataDir = copyOfWhole()
  const log = join(dataDir, 'runs', runId(2), 'events.jsonl')
  writeFileSync(log, flipBit(readFileSync(log)))
  writeFileSync(join(dataDir, 'config.json'), '{ "server": ')
  writeFileSync(join(dataDir, 'installation.json'), 'in-0')
  writeFileSync(join(dataDir, 'usage', 'p', 's.json'), '{"entr')
  expect((await check(dataDir)).damage.map(({ where }) => where)).toEqual([
    `runs/${runId(2)}/events.jsonl`,
    'config.json',
    'installation.json',
    'usage/p/s.json',
  ])
})

test.each([
  ['a log', `runs/${runId(2)}/events.jsonl`],
  ['the configuration', 'config.json'],
  ['the usage of a session', 'usage/p/s.json'],
  ['the database', 'state/data.mdb'],
])('a folder in the place of %s is named once, and the check goes on', async (_what, name) => {
  const dataDir = copyOfWhole()
  rmSync(join(dataDir, name), { force: true })
  mkdirSync(join(dataDir, name))
  writeFileSync(join(dataDir, 'credential-origins.json'), 'garbled')
  expect((await check(dataDir)).damage.map((each) => [each.where, each.message])).toEqual(
    expect.arrayContaining([
      [name, expect.stringContaining('EISDIR')],
      ['credential-origins.json', expect.anything()],
    ]),
  )
  expect((await check(dataDir)).damage).toHaveLength(2)
})

test('the directory of a worker in that of a host is checked with it', async () => {
  const dataDir = copyOfWhole()
  const worker = join(dataDir, 'worker')
  cpSync(whole, worker, { recursive: true })
  await changeRow(worker, 'life:lease', 'ls-1', flipBit)
  expect(await check(dataDir)).toMatchObject({
    damage: [{ id: 'actor lease ls-1', where: 'worker/state/data.mdb, table life:lease' }],
    toSetAside: [worker],
  })
})

test('a garbled page refuses the start with a name and a cure, and the check names it too, unless it is free', async () => {
  let named = 0
  for (const page of pagesOf(whole)) {
    const dataDir = copyOfWhole()
    garblePage(dataDir, page)
    const isNamed = (await check(dataDir)).damage.length > 0
    const refused = await openAt(dataDir).then(
      (store) => store.close(),
      (error: unknown) => error,
    )
    expect([page, refused instanceof DatabaseDamaged]).toEqual([page, isNamed])
    if (isNamed) expect(String(refused)).toContain(DAMAGE_CURE)
    named += Number(isNamed)
  }
  expect(named).toBeGreaterThan(15)
})

/** Takes the checksum from each row, as rows were in format 4. */
async function makeFormat4(dataDir: string): Promise<void> {
  const root = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
  for (const name of [...root.getKeys()].map(String).filter((each) => each !== 'codec')) {
    const rows = root.openDB<Uint8Array, string>({ name, encoding: 'binary' })
    for (const { key, value } of [...rows.getRange()])
      if (isSealed(value)) await rows.put(key, Uint8Array.from(value.subarray(5)))
  }
  const meta = root.openDB<string, string>({ name: 'meta', encoding: 'string' })
  await meta.remove('sealed')
  await meta.put('format', '4')
  await root.close()
}

test('a directory of format 4 is whole, and a start gives each row its checksum', async () => {
  const dataDir = copyOfWhole()
  await makeFormat4(dataDir)
  expect(await damageOf(dataDir)).toEqual([])
  const store = await openAt(dataDir)
  expect(store.database.runs.list({}).length).toBe(WHOLE_RUNS)
  await store.close()
  expect(await damageOf(dataDir)).toEqual([])
  // Without a checksum the flipped bit would be a flipped bit of a run.
  await changeRow(dataDir, 'runs', runId(3), flipBit)
  expect(await damageOf(dataDir)).toEqual([`run ${runId(3)}`])
})
