/** Only one live host uses a data directory, whatever process was killed before and however many start at once. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realRandom } from '../../../bin/clock.ts'
import { DataDirInUse } from '../../../store/errors.ts'
import { acquireLock } from '../../../store/lock.ts'
import { runTypeScript } from '../../support/child-process.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'

const ROUNDS = 100
const RACERS = 4
const dead = { pid: 4_194_303, began: '1', boot: 'unknown', nonce: '00' }

test('a second holder is refused while the first lives, and learns its process id', () => {
  const folder = diskFolder()
  const lock = acquireLock(folder, realRandom)
  expect(() => acquireLock(folder, realRandom)).toThrow(DataDirInUse)
  expect(() => acquireLock(folder, realRandom)).toThrow(new RegExp(`process ${process.pid}\\)`))
  lock.release()
  const again = acquireLock(folder, realRandom)
  again.release()
})

test.each([
  ['of a process that is gone', JSON.stringify(dead)],
  ['of another boot', JSON.stringify({ ...ownHolder(), boot: 'another' })],
  ['of a process that had our number before', JSON.stringify({ ...ownHolder(), began: '1' })],
  ['torn by a power cut', ''],
])('a lock %s does not stop a new one', (_name, text) => {
  const folder = diskFolder()
  writeFileSync(join(folder, 'lock.7'), text)
  writeFileSync(join(folder, 'lock.3'), text)
  writeFileSync(join(folder, `lock.draft.${dead.pid}.ab`), '')
  acquireLock(folder, realRandom)
  expect(readdirSync(folder)).toEqual(['lock.8'])
})

test('an unreadable lock counts as held', () => {
  const folder = diskFolder()
  // Root may read every file, so a folder stands in for a file of another user.
  mkdirSync(join(folder, 'lock.1'))
  expect(() => acquireLock(folder, realRandom)).toThrow(/lock\.1 cannot be read .* another switchyard/)
  expect(readdirSync(folder)).toEqual(['lock.1'])
})

test('releasing never throws, even where nothing can be written', () => {
  const folder = join(diskFolder(), 'data')
  mkdirSync(folder)
  const lock = acquireLock(folder, realRandom)
  rmSync(folder, { recursive: true })
  writeFileSync(folder, '')
  expect(() => lock.release()).not.toThrow()
})

test('one of many processes that find a stale lock at the same instant gets it', async () => {
  const folder = diskFolder()
  for (let round = 0; round < ROUNDS; round++) {
    mkdirSync(join(folder, `${round}`))
    writeFileSync(join(folder, `${round}`, `lock.${1 + (round % 12)}`), JSON.stringify(dead))
  }
  const start = Date.now() + 700
  const racers = Array.from({ length: RACERS }, () =>
    runTypeScript('test/support/store-child.ts', ['lock', folder, `${ROUNDS}`, `${start}`]),
  )
  await until('all processes have finished', () => racers.every(({ lines }) => lines.includes('done')))
  for (const { process } of racers) process.kill('SIGKILL')
  await Promise.all(racers.map(({ ended }) => ended))
  const lines = racers.flatMap((racer) => racer.lines)
  const won = Array.from(
    { length: ROUNDS },
    (_, round) => lines.filter((line) => line === `won ${round}`).length,
  )
  expect(won).toEqual(Array(ROUNDS).fill(1))
  const lost = lines.filter((line) => line.startsWith('lost'))
  expect(lost.filter((line) => !line.endsWith(' DataDirInUse'))).toEqual([])
  expect(lost).toHaveLength(ROUNDS * (RACERS - 1))
})

/** Returns the content of a lock of this process. */
function ownHolder(): object {
  const folder = diskFolder()
  acquireLock(folder, realRandom)
  return JSON.parse(readFileSync(join(folder, 'lock.1'), 'utf8'))
}
