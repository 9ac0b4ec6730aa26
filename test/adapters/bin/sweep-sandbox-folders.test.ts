/** Sandbox folders of deleted data directories are deleted; those of living, unmounted and unknown ones stay. */
import {
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { sweepSandboxFolders } from '../../../bin/programs/worker/sweep-sandbox-folders.ts'
import { acquireLock } from '../../../store/lock.ts'
import {
  ABANDONED_AFTER_MS,
  chooseSandboxLocation,
  OWNER_FILE,
} from '../../../worker/run/disk/sandbox-location.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const real = { clock: realClock, random: realRandom }
const now = Promise.resolve(realClock.now())

const GID = 1_900_000_000
const OLD = new Date(realClock.now() - 2 * ABANDONED_AFTER_MS)

interface Bench {
  readonly top: string
  /** Creates a data directory and its sandbox folder, as a worker did two days ago. */
  add(name: string): Promise<{ dataDir: string; folder: string }>
  sweep(): Promise<string[]>
}

async function createBench(): Promise<Bench> {
  const top = realpathSync(tempFolder())
  mkdirSync(join(top, 'inside'))
  const chosenFolder = join(top, 'sandboxes')
  const add = async (name: string) => {
    const dataDir = join(top, name)
    mkdirSync(dataDir, { recursive: true })
    const parts = { gid: GID, dataDir, chosenFolder, insidePrograms: join(top, 'inside') }
    const { folder } = await chooseSandboxLocation({ ...parts, nodeProgram: '/usr/bin/node' })
    mkdirSync(join(folder, 'sandboxes/run-1'), { recursive: true })
    writeFileSync(join(folder, 'sandboxes/run-1/file'), 'x')
    utimesSync(join(folder, OWNER_FILE), OLD, OLD)
    return { dataDir, folder }
  }
  const own = await add('own')
  const sweep = async () => {
    const log = createRecordingLog()
    await sweepSandboxFolders({ folder: own.folder, lock: real, now, log })
    expect(existsSync(join(own.folder, 'sandboxes/run-1/file'))).toBe(true)
    return log.lines.map(({ message }) => message)
  }
  return { top, add, sweep }
}

testAsRoot('a folder is deleted when its data directory was, also with the folder above', async () => {
  const bench = await createBench()
  const [gone, nested, kept] = [
    await bench.add('gone'),
    await bench.add('host/worker'),
    await bench.add('kept'),
  ]
  rmSync(gone.dataDir, { recursive: true })
  rmSync(join(bench.top, 'host'), { recursive: true })
  expect(await bench.sweep()).toHaveLength(2)
  expect([gone, nested, kept].map(({ folder }) => existsSync(folder))).toEqual([false, false, true])
})

testAsRoot('a folder stays while its disk may only be unmounted, or the record is not sound', async () => {
  const bench = await createBench()
  const record = ({ folder }: { folder: string }, text: string) => {
    writeFileSync(join(folder, OWNER_FILE), text)
    utimesSync(join(folder, OWNER_FILE), OLD, OLD)
  }
  const otherDisk = await bench.add('other-disk')
  record(otherDisk, `${otherDisk.dataDir}\n${statSync('/proc').dev}\n`)
  const emptyMount = await bench.add('mnt/data')
  record(emptyMount, `${emptyMount.dataDir}\n`)
  const foreign = await bench.add('foreign')
  record(foreign, '/nowhere/else\n')
  const behindFile = await bench.add('file/data')
  const recent = await bench.add('recent')
  utimesSync(join(recent.folder, OWNER_FILE), new Date(), new Date())
  for (const { dataDir } of [otherDisk, emptyMount, foreign, behindFile, recent])
    rmSync(dataDir, { recursive: true })
  renameSync(join(bench.top, 'file'), join(bench.top, 'moved'))
  writeFileSync(join(bench.top, 'file'), 'not a folder')
  expect(await bench.sweep()).toEqual([])
  for (const { folder } of [otherDisk, emptyMount, foreign, behindFile, recent])
    expect(existsSync(folder)).toBe(true)
})

testAsRoot('a folder in use stays, and the record of an earlier version is understood', async () => {
  const bench = await createBench()
  const [used, earlier] = [await bench.add('used'), await bench.add('earlier')]
  writeFileSync(join(earlier.folder, OWNER_FILE), `${earlier.dataDir}\n`)
  utimesSync(join(earlier.folder, OWNER_FILE), OLD, OLD)
  for (const { dataDir } of [used, earlier]) rmSync(dataDir, { recursive: true })
  const lock = acquireLock(used.folder, real)
  await bench.sweep()
  expect([used, earlier].map(({ folder }) => existsSync(folder))).toEqual([true, false])
  lock.release()
})

test('a machine without such folders is no error', async () => {
  const folder = tempFolder()
  const log = createRecordingLog()
  await sweepSandboxFolders({ folder, lock: real, now, log })
  expect(log.lines).toEqual([])
})
