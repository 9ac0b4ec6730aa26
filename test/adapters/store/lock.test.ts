/**
 * Only one live host uses a data directory, whatever process was killed before, however many start at once, and in
 * whatever container or machine they run.
 */
import { chownSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { lockDataDir } from '../../../store/data-folder.ts'
import { DataDirInUse } from '../../../store/errors.ts'
import { acquireLock, findOwner } from '../../../store/lock.ts'
import { findKernelLock } from '../../../store/lock-files.ts'
import { openStore } from '../../../store/store.ts'
import { openWorkerStore } from '../../../store/worker-store.ts'
import { runTypeScript, type TestProcess } from '../../support/child-process.ts'
import {
  IN_CONTAINER,
  onOtherMachine,
  testWithContainers,
  withoutKernelLocks,
} from '../../support/namespaces.ts'
import {
  compileRecorder,
  findFiles,
  RecordedDisk,
  readRecording,
} from '../../support/power-loss/recorded-disk.ts'
import { Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { diskFolder, tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'

const real = { clock: realClock, random: realRandom }
const ROUNDS = 100
const UNLOCKED_ROUNDS = 60
const RACERS = 4
const dead = { pid: 4_194_303, began: '1', boot: 'unknown', nonce: '00' }

const running = new Set<TestProcess>()

afterEach(async () => {
  for (const each of running) await end(each)
})

function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  before: readonly string[] = [],
): TestProcess {
  const started = runTypeScript('test/support/store-child.ts', args, env, before)
  running.add(started)
  return started
}

async function end(each: TestProcess): Promise<void> {
  running.delete(each)
  each.process.kill('SIGKILL')
  await each.ended
}

test('a second holder is refused while the first lives, and learns its process id', () => {
  const folder = diskFolder()
  const lock = acquireLock(folder, real)
  expect(() => acquireLock(folder, real)).toThrow(DataDirInUse)
  expect(() => acquireLock(folder, real)).toThrow(new RegExp(`process ${process.pid} on .+, since \\d{4}-`))
  lock.release()
  const again = acquireLock(folder, real)
  again.release()
})

test.each([
  ['of a process that is gone', JSON.stringify(dead)],
  ['of an earlier version and boot', JSON.stringify({ ...dead, pid: process.pid, boot: 'another' })],
  ['of a process that had our number before', JSON.stringify({ ...ownHolder(), began: '1' })],
  ['torn by a power cut', ''],
])('a lock %s does not stop a new one', (_name, text) => {
  const folder = diskFolder()
  writeFileSync(join(folder, 'lock.7'), text)
  writeFileSync(join(folder, 'lock.3'), text)
  writeFileSync(join(folder, `lock.draft.${dead.pid}.ab`), '')
  acquireLock(folder, real)
  expect(readdirSync(folder)).toEqual(['lock.8'])
})

test.each(['', 'garbage', '{}', JSON.stringify({ pid: 1, began: '' })])(
  'a process that holds its damaged lock file (%j) is not taken for dead',
  async (text) => {
    const folder = diskFolder()
    const owner = run(['own', folder])
    await until('the owner has answered', () => owner.lines.length > 0)
    owner.process.kill('SIGSTOP')
    writeFileSync(join(folder, 'lock.1'), text)
    for (const takeOver of [undefined, 'by-hand'] as const)
      expect(() => acquireLock(folder, { ...real, takeOver })).toThrow(/in use by another/)
    expect(findOwner(folder)).toMatchObject({ isAlive: true })
    await expect(open(folder)).rejects.toThrow(/in use by another/)
    expect(readdirSync(folder)).toContain('lock.1')
    await end(owner)
    const store = await open(folder)
    await store.close()
  },
)

test.each([
  ['missing', () => {}],
  ['torn, without locks of the kernel', (file: string) => writeFileSync(file, '')],
])('an owner whose lock file is %s is found by its open database', async (_how, leave) => {
  const folder = diskFolder()
  const owner = await startOwner(folder, [], withoutKernelLocks())
  owner.process.kill('SIGSTOP')
  rmSync(join(folder, 'lock.1'))
  leave(join(folder, 'lock.1'))
  await expect(open(folder)).rejects.toThrow(
    new RegExp(`in use by another .*process ${owner.process.pid}, whose lock file`),
  )
  await end(owner)
  const store = await open(folder)
  await store.close()
})

test('a busy worker that stands still keeps its directory without its lock file', async () => {
  const folder = diskFolder()
  const owner = run(['frames', folder, '1'])
  await until('the worker commits', () => owner.lines.length > 100)
  owner.process.kill('SIGSTOP')
  rmSync(join(folder, 'lock.1'))
  await expect(openWorkerStore(options(folder))).rejects.toThrow(/in use by another .*is missing or damaged/)
  await end(owner)
  const store = await openWorkerStore(options(folder))
  await store.close()
})

test('a power loss leaves no lock file without its owner', async () => {
  const folder = diskFolder()
  const recording = join(tempFolder(), 'recording')
  const found = findFiles(folder)
  const owner = run(['own', folder], {
    LD_PRELOAD: compileRecorder(),
    POWER_LOSS_LOG: recording,
    POWER_LOSS_FOLDERS: folder,
  })
  await until('the owner has answered', () => owner.lines.length > 0)
  const text = readFileSync(join(folder, 'lock.1'), 'utf8')
  await end(owner)
  const entries = readRecording(recording)
  const left = join(diskFolder(), 'left')
  new RecordedDisk(found, entries, {
    at: entries.length,
    losing: (path) => (path === folder ? 'nothing' : 'everything'),
    random: new Random(1),
  }).write(folder, left)
  expect(readFileSync(join(left, 'lock.1'), 'utf8')).toBe(text)
})

test('a lock that nobody can read counts as held', () => {
  const folder = diskFolder()
  // Root may read every file, so a folder stands in for a file of another user.
  mkdirSync(join(folder, 'lock.1'))
  expect(() => acquireLock(folder, real)).toThrow(/lock\.1 cannot be read .* another switchyard/)
  expect(readdirSync(folder)).toEqual(['lock.1'])
})

test('releasing never throws, even where nothing can be written', () => {
  const folder = join(diskFolder(), 'data')
  mkdirSync(folder)
  const lock = acquireLock(folder, real)
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
  await expectOneWinner(folder, ROUNDS, 12)
})

test('one of many processes that find a database without a lock file at the same instant gets it', async () => {
  const folder = diskFolder()
  const store = await open(join(folder, '0'))
  await store.close()
  rmSync(join(folder, '0', 'lock.2'))
  for (let round = 1; round < UNLOCKED_ROUNDS; round++)
    cpSync(join(folder, '0'), join(folder, `${round}`), { recursive: true })
  await expectOneWinner(folder, UNLOCKED_ROUNDS, 40)
})

/** Lets processes lock the folders named by numbers, each folder at one instant, and the next after `everyMs`. */
async function expectOneWinner(folder: string, rounds: number, everyMs: number): Promise<void> {
  const start = Date.now() + 1_500
  const racers = Array.from({ length: RACERS }, () =>
    run(['lock', folder, `${rounds}`, `${start}`, `${everyMs}`]),
  )
  await until('all processes have finished', () => racers.every(({ lines }) => lines.includes('done')))
  for (const racer of racers) await end(racer)
  const lines = racers.flatMap((racer) => racer.lines)
  const won = Array.from(
    { length: rounds },
    (_, round) => lines.filter((line) => line === `won ${round}`).length,
  )
  expect(won).toEqual(Array(rounds).fill(1))
  const lost = lines.filter((line) => line.startsWith('lost'))
  expect(lost.filter((line) => !line.endsWith(' DataDirInUse'))).toEqual([])
  expect(lost).toHaveLength(rounds * (RACERS - 1))
}

// ---- containers and machines ---------------------------------------------------------------------------------------

testWithContainers(
  'a host in another container is seen to live and to die, and nobody’s word counts',
  async () => {
    const folder = diskFolder()
    const owner = await startOwner(folder, IN_CONTAINER)
    for (const takeOver of [undefined, 'by-hand', 'exclusive-volume'] as const)
      expect(() => acquireLock(folder, { ...real, takeOver })).toThrow(
        /in use by another .*\(process 1 in another container on .+, since /,
      )
    expect(findOwner(folder)).toMatchObject({ pid: 1, isAlive: true })
    await end(owner)
    expect(findOwner(folder)).toBeUndefined()
    acquireLock(folder, real)
  },
)

testWithContainers(
  'a host in a container sees that of its machine, also when it has a boot id of its own',
  async () => {
    const folder = diskFolder()
    const lock = acquireLock(folder, real)
    for (const place of [IN_CONTAINER, onOtherMachine()])
      for (const word of ['', 'by-hand', 'exclusive-volume'])
        expect(await tryToOwn(folder, place, word)).toMatch(/^DataDirInUse .* is in use by another/)
    lock.release()
    expect(await tryToOwn(folder, IN_CONTAINER)).toBe('owns')
  },
)

testWithContainers('a host without its lock file is seen by one with the same process id', async () => {
  const folder = diskFolder()
  const owner = await startOwner(folder, IN_CONTAINER)
  freezeChild(owner)
  rmSync(join(folder, 'lock.1'))
  expect(await tryToOwn(folder, IN_CONTAINER)).toMatch(
    /^DataDirInUse .*process 1, whose lock file is missing/,
  )
  await end(owner)
})

testWithContainers(
  'without locks of the kernel, a person’s word decides about another container',
  async () => {
    const folder = diskFolder()
    const owner = await startOwner(folder, IN_CONTAINER, withoutKernelLocks())
    expect(() => acquireLock(folder, real)).toThrow(/cannot see whether it is still running/)
    expect(() => acquireLock(folder, { ...real, takeOver: 'exclusive-volume' })).toThrow(DataDirInUse)
    const lock = acquireLock(folder, { ...real, takeOver: 'by-hand' })
    expect(lock.findLoss()).toBeUndefined()
    await end(owner)
  },
)

test.each(['by-hand', 'exclusive-volume'] as const)(
  'a host of another machine counts as alive until somebody takes its directory over (%s)',
  (takeOver) => {
    const folder = diskFolder()
    writeFileSync(join(folder, 'lock.4'), JSON.stringify({ ...ownHolder(), boot: 'b', machine: 'm' }))
    expect(() => acquireLock(folder, real)).toThrow(/belongs to another .*cannot see whether it is still/)
    expect(findOwner(folder)).toMatchObject({ pid: process.pid, isAlive: false })
    acquireLock(folder, { ...real, takeOver })
    expect(readdirSync(folder)).toEqual(['lock.5'])
  },
)

testWithContainers('an earlier version in another container is found by its open database', async () => {
  const folder = diskFolder()
  const owner = run(['earlier', folder], withoutKernelLocks(), IN_CONTAINER)
  await until('the earlier version owns the directory', () => owner.lines.includes('wrote'))
  await expect(open(folder)).rejects.toThrow(/process 1 of an earlier version, in another container/)
  expect(readdirSync(folder).filter((name) => name.startsWith('lock.'))).toEqual(['lock.1'])
  await end(owner)
  const store = await open(folder)
  await store.close()
})

test('a process that an owner started does not keep its lock', async () => {
  const folder = diskFolder()
  const owner = run(['child', folder])
  await until('the owner has a child', () => owner.lines.length === 1)
  await end(owner)
  const child = Number(owner.lines[0])
  try {
    expect(findKernelLock(join(folder, 'lock.1'))).toBe('free')
    expect(process.kill(child, 0)).toBe(true)
  } finally {
    process.kill(child, 'SIGKILL')
  }
})

test('an owner learns that its directory was taken over, and then releases nothing', () => {
  const folder = diskFolder()
  const lock = acquireLock(folder, real)
  expect(lock.findLoss()).toBeUndefined()
  const taker = { ...ownHolder(), hostname: 'forge' }
  writeFileSync(join(folder, 'lock.2'), JSON.stringify(taker))
  rmSync(join(folder, 'lock.1'))
  expect(lock.findLoss()).toMatch(/another switchyard has taken over .* \(process \d+ on forge, since /)
  // The number may even be in use again.
  writeFileSync(join(folder, 'lock.1'), '')
  expect(lock.findLoss()).toMatch(/taken over/)
  lock.release()
  expect(readdirSync(folder).sort()).toEqual(['lock.1', 'lock.2'])
})

testAsRoot('root leaves nothing in a folder of another user', async () => {
  const folder = diskFolder()
  chownSync(folder, 65_534, 65_534)
  for (const attempt of [open, (dataDir: string) => lockDataDir(options(dataDir))])
    await expect(attempt(folder)).rejects.toThrow(/belongs to user 65534.*sudo -u '#65534'/)
  expect(readdirSync(folder)).toEqual([])
})

const options = (dataDir: string) => {
  return { dataDir, ...real, log: createRecordingLog(), meters: noMeters, emergencySpaceBytes: 0 }
}
const open = (dataDir: string) => openStore(options(dataDir))

async function startOwner(
  folder: string,
  before: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<TestProcess> {
  const owner = run(['own', folder], env, before)
  await until('the owner has answered', () => owner.lines.length > 0)
  expect(owner.lines).toEqual(['owns'])
  return owner
}

/** An owner that runs writes its lock file anew. */
function freezeChild({ process: { pid } }: TestProcess): void {
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
  process.kill(Number(child), 'SIGSTOP')
}

/** Returns what the process says, and ends it. */
async function tryToOwn(folder: string, before: readonly string[], word = ''): Promise<string | undefined> {
  const owner = run(['own', folder, word], {}, before)
  await until('the process has answered', () => owner.lines.length > 0)
  await end(owner)
  return owner.lines[0]
}

/** Returns the content of a lock of this process. */
function ownHolder(): object {
  const folder = diskFolder()
  acquireLock(folder, real)
  return JSON.parse(readFileSync(join(folder, 'lock.1'), 'utf8'))
}
