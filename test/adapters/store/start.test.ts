/** Tests of opening a store in folders of others and on full disks. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { open } from 'lmdb'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Store } from '../../../core/ports/store.ts'
import { NotADataDir, StoreFull, StoreTooNew } from '../../../store/errors.ts'
import { FORMAT } from '../../../store/lmdb/origin.ts'
import { openStore } from '../../../store/store.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { putSnapshot, sampleSnapshot } from './samples.ts'

const EMERGENCY_SPACE_BYTES = 2 * 1024 * 1024

const openAt = (dataDir: string): Promise<Store> =>
  openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: EMERGENCY_SPACE_BYTES,
  })

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** Runs the test on a small disk of its own. Only root may mount a disk; for other users the test does nothing. */
async function onSmallDisk(run: (disk: string) => Promise<void>): Promise<void> {
  const disk = diskFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk]).status !== 0) return
  try {
    await run(disk)
  } finally {
    execFileSync('umount', [disk])
  }
}

const fill = (disk: string) => spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=4k'])

test('a folder with other content keeps its mode', async () => {
  const folder = join(diskFolder(), 'home')
  mkdirSync(folder, { mode: 0o755 })
  writeFileSync(join(folder, 'thesis.txt'), '')
  await expect(openAt(folder)).rejects.toThrow(NotADataDir)
  await expect(openAt(folder)).rejects.toThrow(/other content.*name an empty or new folder/)
  expect(modeOf(folder)).toBe('755')
  writeFileSync(join(folder, 'config.json'), '{}')
  await (await openAt(folder)).close()
  expect(modeOf(folder)).toBe('700')
})

test('a store on a full disk opens without its emergency space, and says that the disk is full', () =>
  onSmallDisk(async (disk) => {
    const dataDir = join(disk, 'data')
    const emergencyFile = join(dataDir, 'state', 'ballast')
    const first = await openAt(dataDir)
    await first.database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
    await until('the emergency space exists', () => existsSync(emergencyFile))
    await first.close()
    fill(disk)
    const second = await openAt(dataDir)
    expect(existsSync(emergencyFile)).toBe(false)
    expect(second.database.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(1))
    await until('the full disk is noticed', () => second.database.state().is === 'degraded')
    rmSync(join(disk, 'filler'))
    await until('there is space again', () => second.database.state().is === 'ready')
    await second.close()
  }))

test('a disk without space for a new database is refused, and accepted once there is space', () =>
  onSmallDisk(async (disk) => {
    const dataDir = join(disk, 'data')
    mkdirSync(dataDir)
    execFileSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=1k', 'count=24064'], {
      stdio: 'ignore',
    })
    await expect(openAt(dataDir)).rejects.toThrow(StoreFull)
    rmSync(join(disk, 'filler'))
    await (await openAt(dataDir)).close()
  }))

test('the reason why a store did not open is reported, even when its lock cannot be released', () =>
  onSmallDisk(async (disk) => {
    const dataDir = join(disk, 'data')
    const first = await openAt(dataDir)
    await first.close()
    const root = open({ path: join(dataDir, 'state'), noSubdir: false, overlappingSync: false })
    await root.openDB<string, string>({ name: 'meta', encoding: 'string' }).put('format', String(FORMAT + 1))
    await root.close()
    fill(disk)
    await expect(openAt(dataDir)).rejects.toThrow(StoreTooNew)
  }))
