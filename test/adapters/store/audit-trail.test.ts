/** Tests of the trail of actions on a real disk: its chain, its end after a crash, and what cannot be written. */
import { appendFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { AuditAction, AuditEntry } from '../../../protocol/audit.ts'
import { AuditTrailOnDisk, readAuditTrail as readTrail } from '../../../store/files/audit-trail.ts'
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const textOf = ({ lines }: RecordingLog) => lines.map(({ message }) => message).join('\n')
const CANCEL: AuditAction = { source: 'command', action: 'cancelRun', on: { id: 'r1' }, status: 200 }

async function readAuditTrail(folder: string) {
  const entries: AuditEntry[] = []
  const read = await readTrail(folder, (entry) => void entries.push(entry))
  expect(read.count).toBe(entries.length)
  const { faults, isLastUnfinished } = read
  return { entries, faults, isLastUnfinished }
}

function trailIn(folder: string, { fileBytesMax = 8192 } = {}) {
  const log = createRecordingLog()
  let refusal: Error | undefined
  const open = () =>
    AuditTrailOnDisk.open({
      folder,
      clock: { now: () => Date.UTC(2026, 0, 2) },
      log,
      guardWrite: (write) => (refusal === undefined ? write() : Promise.reject(refusal)),
      fileBytesMax,
    })
  return {
    log,
    open,
    refuse: (error: Error | undefined) => {
      refusal = error
    },
  }
}

async function writeThree(folder: string): Promise<string> {
  const trail = await trailIn(folder).open()
  await trail.record(CANCEL)
  await Promise.all([
    trail.record({ ...CANCEL, action: 'retryRun' }),
    trail.record({ ...CANCEL, source: 'page' }),
  ])
  await trail.close()
  return join(folder, readdirSync(folder)[0] ?? '')
}

test('the chain of what was recorded is whole, goes on after a restart and over several files', async () => {
  const folder = tempFolder()
  const { open } = trailIn(folder, { fileBytesMax: 300 })
  for (let restart = 0; restart < 3; restart++) {
    const trail = await open()
    for (let each = 0; each < 3; each++) await trail.record({ ...CANCEL, on: { id: `${restart}${each}` } })
    await trail.close()
  }
  const { entries, faults, isLastUnfinished } = await readAuditTrail(folder)
  expect(faults).toEqual([])
  expect(isLastUnfinished).toBe(false)
  expect(entries.map(({ n, on }) => `${n} ${on?.id}`)).toEqual([
    ...['1 00', '2 01', '3 02', '4 10', '5 11', '6 12', '7 20', '8 21', '9 22'],
  ])
  expect(entries[0]).toMatchObject({ at: '2026-01-02T00:00:00.000Z', source: 'command', status: 200 })
  expect(readdirSync(folder).length).toBeGreaterThan(2)
})

test.each<[string, (text: string) => string, RegExp]>([
  ['a changed entry', (text) => text.replace('retryRun', 'mergePull'), /:2: entry 2 was changed/],
  ['a removed entry', (text) => text.replace(/\n.*retryRun.*\n/, '\n'), /entry 2 is missing before entry 3/],
  ['a garbled entry', (text) => text.replace('{"n":2', '#"n":2'), /:2 is no entry/],
  ['a repeated entry', (text) => text.replace(/^(.*\n)/, '$1$1'), /entry 1 stands where entry 2 should/],
  [
    'entries without their beginning',
    (text) => text.replace(/^.*\n/, ''),
    /entry 1 is missing before entry 2/,
  ],
])('%s is named', async (_what, change, fault) => {
  const folder = tempFolder()
  const file = await writeThree(folder)
  const text = readFileSync(file, 'utf8')
  expect((await readAuditTrail(folder)).faults).toEqual([])
  const changed = change(text)
  expect(changed).not.toBe(text)
  writeFileSync(file, changed)
  expect((await readAuditTrail(folder)).faults[0]).toMatch(fault)
})

test('an unfinished entry at the end of a full file is cut off', async () => {
  const folder = tempFolder()
  const file = await writeThree(folder)
  appendFileSync(file, '{"n":4,')
  for (let restart = 0; restart < 2; restart++) {
    const trail = await trailIn(folder, { fileBytesMax: 100 }).open()
    await trail.record(CANCEL)
    await trail.close()
  }
  const { entries, faults } = await readAuditTrail(folder)
  expect(faults).toEqual([])
  expect(entries).toHaveLength(5)
  expect(readdirSync(folder)).toHaveLength(2)
})

test('an entry that was changed and sealed anew no longer fits the one behind it', async () => {
  const folder = tempFolder()
  const file = await writeThree(folder)
  const forged = tempFolder()
  const trail = await trailIn(forged).open()
  await trail.record({ ...CANCEL, on: { id: 'another' } })
  await trail.close()
  const [first = ''] = readFileSync(join(forged, readdirSync(forged)[0] ?? ''), 'utf8').split('\n')
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^.*/, first))
  expect((await readAuditTrail(folder)).faults).toEqual([expect.stringMatching(/:2: entry 2 was changed/)])
})

test('the unfinished end of a crash is cut off, and the chain goes on', async () => {
  const folder = tempFolder()
  const file = await writeThree(folder)
  truncateSync(file, readFileSync(file).length - 10)
  expect(await readAuditTrail(folder)).toMatchObject({ faults: [], isLastUnfinished: true })
  const { open, log } = trailIn(folder)
  const trail = await open()
  expect(textOf(log)).toContain('unfinished entry')
  await trail.record({ ...CANCEL, action: 'drainWorker' })
  await trail.close()
  const { entries, faults } = await readAuditTrail(folder)
  expect(faults).toEqual([])
  expect(entries.map(({ n, action }) => `${n} ${action}`)).toEqual([
    '1 cancelRun',
    '2 retryRun',
    '3 drainWorker',
  ])
})

test('a last entry that nobody can read stays named, and what follows is whole', async () => {
  const folder = tempFolder()
  const file = await writeThree(folder)
  appendFileSync(file, 'garbage\n')
  const trail = await trailIn(folder).open()
  await trail.record(CANCEL)
  await trail.close()
  const { entries, faults } = await readAuditTrail(folder)
  expect(faults).toEqual([expect.stringMatching(/:4 is no entry/)])
  expect(entries.map(({ n }) => n)).toEqual([1, 2, 3, 5])
})

test('actions that could not be written are logged, and counted in the next entry', async () => {
  const folder = tempFolder()
  const { open, refuse, log } = trailIn(folder)
  const trail = await open()
  await trail.record(CANCEL)
  refuse(new Error('the disk is full'))
  await trail.record({ ...CANCEL, action: 'retryRun' })
  expect(textOf(log)).toContain('could not be written to the trail')
  refuse(undefined)
  await trail.record(CANCEL)
  await trail.close()
  const { entries, faults } = await readAuditTrail(folder)
  expect(faults).toEqual([])
  expect(entries).toMatchObject([{ n: 1 }, { n: 2, missed: 1, action: 'cancelRun' }])
})
