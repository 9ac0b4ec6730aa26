/** Tests of a database whose file is removed, replaced or truncated while it is open. */
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
import { realClock } from '../../../bin/clock.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { DatabaseFile } from '../../../store/lmdb/database-file.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { identifyDatabase, putSnapshot, sampleSnapshot } from './samples.ts'

const openDatabase = (folder: string) =>
  new LmdbControlDatabase({
    folder,
    clock: realClock,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
    identifyDatabase,
  })

function place() {
  const folder = join(tempFolder(), 'state')
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
    return new DatabaseFile(file)
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

test.each(losses)('the state and the next commit report at once that the file was %s', async (how) => {
  for (const ask of ['state', 'commit'] as const) {
    const at = place()
    const database = openDatabase(at.folder)
    await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
    lose(how, at)
    if (ask === 'commit')
      await expect(database.commit([putSnapshot('lease', 'b', sampleSnapshot(2))])).rejects.toThrow(
        'while it was in use',
      )
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
  expect(database.state().is).toBe('broken')
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

test('no new database appears where the file was removed', async () => {
  const at = place()
  const database = openDatabase(at.folder)
  lose('removed', at)
  await expect(database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])).rejects.toThrow('removed')
  await database.close()
  expect(existsSync(at.folder)).toBe(false)
})
