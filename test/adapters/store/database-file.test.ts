/** Tests of a database whose file is removed, replaced or truncated while it is open or opened again. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { DatabaseLost } from '../../../store/errors.ts'
import { OpenFile } from '../../../store/files/atomic.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { Tables } from '../../../store/lmdb/tables.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { identifyDatabase, putSnapshot, sampleSnapshot } from './samples.ts'

const FILE_CHECK_MS = 1_000

/** So that only what a test does itself looks at the file. */
const withoutIdleChecks: Clock = {
  ...realClock,
  after: (ms, run) => (ms === FILE_CHECK_MS ? () => {} : realClock.after(ms, run)),
}

const openDatabase = (folder: string, clock = realClock) =>
  new LmdbControlDatabase({
    folder,
    clock,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
    identifyDatabase,
  })

function place() {
  const folder = join(diskFolder(), 'state')
  return { folder, file: join(folder, 'data.mdb') }
}

const losses = ['removed', 'moved', 'replaced', 'truncated'] as const

function lose(how: (typeof losses)[number], { folder, file }: { folder: string; file: string }): void {
  if (how === 'removed') rmSync(folder, { recursive: true })
  if (how === 'moved') renameSync(folder, `${folder}.away`)
  if (how === 'truncated') truncateSync(file, 0)
  if (how === 'replaced') {
    copyFileSync(file, `${file}.new`)
    renameSync(`${file}.new`, file)
  }
}

test('a file is lost when its path names nothing, another file, or less than before', () => {
  const { folder, file } = place()
  mkdirSync(folder)
  const watch = () => {
    writeFileSync(file, 'some bytes')
    return new OpenFile(file)
  }
  const grown = watch()
  writeFileSync(file, 'some more bytes', { flag: 'r+' })
  expect(grown.findLoss()).toBeUndefined()
  truncateSync(file, 12)
  expect(grown.findLoss()?.is).toBe('truncated')
  const replaced = watch()
  lose('replaced', { folder, file })
  expect(replaced.findLoss()?.is).toBe('replaced')
  const removed = watch()
  rmSync(file)
  expect(removed.findLoss()?.is).toBe('removed')
})

test.each(losses)('an idle database notices that its file was %s', async (how) => {
  const at = place()
  const database = openDatabase(at.folder)
  const states: string[] = []
  database.onState(({ is }) => void states.push(is))
  lose(how, at)
  await until('the database noticed', () => states.length > 0)
  expect(states).toEqual(['broken'])
  await expect(database.commit([])).rejects.toThrow('data.mdb')
  await database.close()
})

test.each(losses)('the state and the next commit report that the file was %s', async (how) => {
  for (const ask of ['state', 'commit'] as const) {
    const at = place()
    const database = openDatabase(at.folder, withoutIdleChecks)
    await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
    lose(how, at)
    if (ask === 'commit')
      await expect(database.commit([putSnapshot('lease', 'b', sampleSnapshot(2))])).rejects.toThrow(
        'while it was in use',
      )
    else await until('the state is reported', () => database.state().is === 'broken')
    expect(database.state()).toMatchObject({ is: 'broken' })
    await database.close()
  }
})

test('a commit that was under way when its file was removed is not acknowledged', async () => {
  const at = place()
  const database = openDatabase(at.folder)
  await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
  const underWay = database.commit([putSnapshot('lease', 'a', sampleSnapshot(2))])
  lose('removed', at)
  await expect(underWay).rejects.toThrow('removed while it was in use')
  await database.close()
})

test.each(['removed', 'replaced'] as const)('the content of a %s file is saved beside it', async (how) => {
  const at = place()
  const database = openDatabase(at.folder)
  await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
  lose(how, at)
  await until('the loss is reported', () => database.state().is === 'broken')
  await database.close()
  const beside = join(at.folder, '..')
  const [saved = ''] = readdirSync(beside).filter((name) => name.startsWith('state.rescued-'))
  expect(saved).not.toContain('.part')
  rmSync(at.folder, { recursive: true, force: true })
  cpSync(join(beside, saved), at.folder, { recursive: true })
  const again = openDatabase(at.folder)
  expect(again.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(1))
  await again.close()
})

test('the state of a lost database says how its content was saved', async () => {
  const at = place()
  const database = openDatabase(at.folder, { ...realClock, now: () => 7 })
  lose('removed', at)
  const state = database.state()
  const saved = `${at.folder}.rescued-7`
  expect(state.is === 'broken' && (await state.rescue?.ended)).toBe(`its content is saved in ${saved}`)
  await database.close()
  const again = openDatabase(at.folder, { ...realClock, now: () => 7 })
  lose('removed', at)
  const next = again.state()
  expect(next.is === 'broken' && (await next.rescue?.ended)).toMatch(
    /^its content could not be saved: .*rescued-7/,
  )
  expect(next).toBe(again.state())
  await again.close()
})

test('a truncated database has no copy', async () => {
  const at = place()
  const database = openDatabase(at.folder)
  lose('truncated', at)
  expect(database.state()).toEqual({ is: 'broken', reason: expect.stringContaining('truncated') })
  await database.close()
})

test('no new database appears where the file was removed', async () => {
  const at = place()
  const database = openDatabase(at.folder)
  lose('removed', at)
  await expect(database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])).rejects.toThrow('removed')
  await database.close()
  expect(existsSync(at.folder)).toBe(false)
})

/** Runs the test with a small disk of its own. */
async function onSmallDisk(run: (disk: string) => Promise<void>): Promise<void> {
  const disk = diskFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk])
  try {
    await run(disk)
  } finally {
    execFileSync('umount', [disk])
  }
}

testAsRoot(
  'a file that is removed while a database is being opened again is saved, and none is created',
  () =>
    onSmallDisk(async (disk) => {
      const [folder, filler] = [join(disk, 'state'), join(disk, 'filler')]
      const file = join(folder, 'data.mdb')
      let onRetry = () => {}
      const clock: Clock = {
        ...realClock,
        after: (ms, run) =>
          realClock.after(ms, () => {
            run()
            if (ms < FILE_CHECK_MS) onRetry()
          }),
      }
      const database = openDatabase(folder, clock)
      await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
      database.onState(({ is }) => {
        if (is !== 'degraded') return
        onRetry = () => {
          for (const path of [filler, file]) rmSync(path)
          onRetry = () => {}
        }
      })
      spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'])
      const text = 'x'.repeat(8 * 1024 * 1024)
      const commit = database.commit([putSnapshot('lease', 'b', { ...sampleSnapshot(2), c: { text } })])
      const [result] = await Promise.allSettled([commit])
      await database.close()
      expect(result).toMatchObject({
        reason: { message: expect.stringContaining('removed while it was in use') },
      })
      expect(existsSync(file)).toBe(false)
      const [saved = ''] = readdirSync(disk).filter((name) => name.startsWith('state.rescued-'))
      const again = openDatabase(join(disk, saved))
      expect(again.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(1))
      await again.close()
    }),
)

test('an environment that is opened again creates no database where the file is missing', async () => {
  const { folder, file } = place()
  const tables = new Tables({ folder, clock: realClock, identifyDatabase })
  const reopening = tables.reopen(() => {
    if (!existsSync(file)) throw new DatabaseLost('removed')
  })
  rmSync(file)
  await expect(reopening).rejects.toThrow('removed')
  expect(existsSync(file)).toBe(false)
})
