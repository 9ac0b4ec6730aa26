/** Tests of files that crashes, hand edits and hostile agents leave in the folders of the store. */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { RUN_ARTIFACTS_MAX } from '../../../protocol/limits.ts'
import { ArtifactsOnDisk } from '../../../store/files/artifacts.ts'
import { makeFolder, replaceFile, sweepDrafts } from '../../../store/files/atomic.ts'
import { ConfigFileOnDisk } from '../../../store/files/config-file.ts'
import { UsageOnDisk } from '../../../store/files/usage.ts'
import { openStore } from '../../../store/store.ts'
import { MemoryArtifacts } from '../../support/memory-artifacts.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { testAsRoot, testIf } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { runId } from './samples.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)
const configIn = (folder: string) =>
  new ConfigFileOnDisk(join(folder, 'config.json'), realClock, createRecordingLog())

testAsRoot('a file that root writes into the folder of another user belongs to that user', async () => {
  const folder = tempFolder()
  chownSync(folder, 65_534, 65_533)
  await replaceFile(join(folder, 'a'), 'x')
  const { uid, gid } = statSync(join(folder, 'a'))
  expect([uid, gid]).toEqual([65_534, 65_533])
})

const testWithProc = testIf(process.platform === 'linux', 'needs /proc')
testWithProc('a folder where the system makes none is refused, and not tried without end', async () => {
  await expect(makeFolder('/proc/nope/state')).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a folder is made with its parents, which are owner-only, and is never made of a file', async () => {
  const folder = tempFolder()
  const inner = join(folder, 'a/b')
  await Promise.all([makeFolder(inner), makeFolder(inner)])
  expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o700)
  writeFileSync(join(inner, 'file'), '')
  await expect(makeFolder(join(inner, 'file'))).rejects.toMatchObject({ code: 'EEXIST' })
  await expect(makeFolder(join(inner, 'file/c'))).rejects.toMatchObject({ code: 'ENOTDIR' })
})

test('a replaced file is owner-only, and no draft is left', async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'a'), 'old', { mode: 0o644 })
  await replaceFile(join(folder, 'a'), 'new')
  expect(readFileSync(join(folder, 'a'), 'utf8')).toBe('new')
  expect(modeOf(join(folder, 'a'))).toBe('600')
  expect(readdirSync(folder)).toEqual(['a'])
  mkdirSync(join(folder, 'b'))
  await expect(replaceFile(join(folder, 'b'), 'x')).rejects.toMatchObject({ code: 'EISDIR' })
  writeFileSync(join(folder, '.a.k3.draft'), 'half')
  await sweepDrafts(folder)
  expect(readdirSync(folder)).toEqual(['a', 'b'])
})

test('a sweep removes no draft that is being written', async () => {
  const folder = tempFolder()
  for (let round = 0; round < 20; round++) {
    const replacing = replaceFile(join(folder, 'a'), `${round} ${'x'.repeat(100_000)}`)
    await Promise.all([replacing, sweepDrafts(folder), sweepDrafts(folder)])
    expect(readFileSync(join(folder, 'a'), 'utf8').startsWith(`${round} `)).toBe(true)
  }
})

test('a replacement can be cancelled when the draft is already complete', async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'a'), 'old')
  const seen: string[] = []
  const calledOff = replaceFile(join(folder, 'a'), 'new', () => {
    seen.push(...readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8')))
    return false
  })
  expect(await calledOff).toBe(false)
  expect(seen.sort()).toEqual(['new', 'old'])
  expect(readdirSync(folder)).toEqual(['a'])
  expect(readFileSync(join(folder, 'a'), 'utf8')).toBe('old')
})

// ---- configuration ---------------------------------------------------------------------------------------------

test('a configuration file that is a link stays one; its target is replaced and owner-only', async () => {
  const folder = tempFolder()
  const elsewhere = join(tempFolder(), 'dotfile.json')
  writeFileSync(elsewhere, '1', { mode: 0o644 })
  symlinkSync(elsewhere, join(folder, 'config.json'))
  const config = configIn(folder)
  await config.tidy()
  expect(modeOf(elsewhere)).toBe('600')
  chmodSync(elsewhere, 0o666)
  expect(await config.replace('1', '2')).toEqual({ is: 'replaced' })
  expect(lstatSync(join(folder, 'config.json')).isSymbolicLink()).toBe(true)
  expect(readFileSync(elsewhere, 'utf8')).toBe('2')
  expect(modeOf(elsewhere)).toBe('600')
})

test('a hand edit during a replacement is not lost', async () => {
  const folder = tempFolder()
  const path = join(folder, 'config.json')
  writeFileSync(path, 'old')
  const replacing = configIn(folder).replace('old', 'x'.repeat(1_000_000))
  // The draft is noticed in the turn that creates it, long before it is written and synced.
  while (readdirSync(folder).length === 1) await new Promise((resolve) => setImmediate(resolve))
  writeFileSync(path, 'by hand')
  expect(await replacing).toEqual({ is: 'changed', text: 'by hand' })
  expect(readdirSync(folder)).toEqual(['config.json'])
  expect(readFileSync(path, 'utf8')).toBe('by hand')
})

test('only drafts of the configuration file itself are removed, whatever else is in the folder', async () => {
  const folder = tempFolder()
  const others = tempFolder()
  writeFileSync(join(others, 'dotfile.json'), '1', { mode: 0o600 })
  symlinkSync(join(others, 'dotfile.json'), join(folder, 'config.json'))
  for (const name of ['.dotfile.json.k3.draft', '.letter.k3.draft', '.config.json.k3.draft'])
    writeFileSync(join(others, name), 'half')
  mkdirSync(join(others, '.dotfile.json.k4.draft'))
  await configIn(folder).tidy()
  expect(readdirSync(others).sort()).toEqual([
    '.config.json.k3.draft',
    '.dotfile.json.k4.draft',
    '.letter.k3.draft',
    'dotfile.json',
  ])
})

test('a linked configuration file that cannot be changed causes a warning', async () => {
  const folder = tempFolder()
  // The kernel forbids changing the mode of this file.
  symlinkSync('/proc/self/status', join(folder, 'config.json'))
  const log = createRecordingLog()
  await new ConfigFileOnDisk(join(folder, 'config.json'), realClock, log).tidy()
  expect(JSON.stringify(log.lines)).toMatch(/may not change its mode to 0600/)
})

test('only the newest rejected copies are kept', async () => {
  const folder = tempFolder()
  const config = configIn(folder)
  writeFileSync(join(folder, 'config.json'), 'mine')
  writeFileSync(join(folder, 'config.json.bak.rejected'), 'mine too')
  const copies: string[] = []
  for (let n = 0; n < 12; n++) copies.push(await config.saveCopy(`${n}`))
  expect(copies.filter((copy) => existsSync(copy))).toEqual(copies.slice(-5))
  expect(copies.slice(-5).map((copy) => readFileSync(copy, 'utf8'))).toEqual(['7', '8', '9', '10', '11'])
  expect(modeOf(copies[11] ?? '')).toBe('600')
  expect(existsSync(join(folder, 'config.json.bak.rejected'))).toBe(true)
})

test('a configuration file that is too large is refused by name', async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'config.json'), Buffer.alloc(1024 * 1024, 32))
  expect((await configIn(folder).read())?.length).toBe(1024 * 1024)
  appendFileSync(join(folder, 'config.json'), ' ')
  await expect(configIn(folder).read()).rejects.toThrow(/config\.json is larger than/)
})

test('every way of editing is noticed, repeatedly', async () => {
  const folder = tempFolder()
  const path = join(folder, 'config.json')
  const config = configIn(folder)
  let calls = 0
  const stop = config.watch(() => calls++)
  const edits = [
    () => writeFileSync(path, '1'),
    () => writeFileSync(path, '2'),
    () => {
      writeFileSync(`${path}~`, '3')
      renameSync(`${path}~`, path)
    },
    () => writeFileSync(path, '4'),
  ]
  for (const edit of edits) {
    const before = calls
    edit()
    await until('the edit is noticed', () => calls > before)
  }
  stop()
  const after = calls
  writeFileSync(path, '5')
  await new Promise((resolve) => setTimeout(resolve, 250))
  expect(calls).toBe(after)
})

// ---- artifacts -------------------------------------------------------------------------------------------------

test('the sum of a run’s artifacts is read from the disk again after a restart', async () => {
  const runs = tempFolder()
  const write = (name: string, part: number, bytes: number, final: boolean) =>
    new ArtifactsOnDisk(runs).write(runId(1), name, part, Buffer.alloc(bytes), final, 100)
  expect(await write('a', 0, 40, true)).toBe('kept')
  expect(await write('b', 0, 50, false)).toBe('kept')
  expect(await write('b', 1, 11, true)).toMatchObject({ refused: expect.any(String) })
  expect(await write('b', 0, 60, true)).toBe('kept')
  expect(await write('c', 0, 1, true)).toMatchObject({ refused: expect.any(String) })
})

test('only plain files of the store are returned', async () => {
  const runs = tempFolder()
  const artifacts = new ArtifactsOnDisk(runs)
  await artifacts.write(runId(1), 'good', 0, Buffer.from('x'), true)
  const folder = join(runs, runId(1), 'artifacts')
  const secret = join(runs, 'secret')
  writeFileSync(secret, 'secret')
  symlinkSync(secret, join(folder, 'link'))
  linkSync(secret, join(folder, 'hard'))
  mkdirSync(join(folder, 'folder'))
  execFileSync('mkfifo', [join(folder, 'fifo')])
  for (const name of ['link', 'hard', 'fifo'])
    expect(await artifacts.find(runId(1), name)).toMatchObject({ is: 'escape' })
  expect(await artifacts.find(runId(1), 'folder')).toEqual({ is: 'missing' })
  expect(await artifacts.names(runId(1))).toEqual(['good'])
  expect(modeOf(join(folder, 'good'))).toBe('600')
  symlinkSync(folder, join(runs, 'elsewhere'))
  mkdirSync(join(runs, runId(2)))
  symlinkSync(folder, join(runs, runId(2), 'artifacts'))
  expect(await artifacts.find(runId(2), 'good')).toEqual({ is: 'missing' })
  await artifacts.remove(runId(2))
  expect(existsSync(join(folder, 'good'))).toBe(true)
})

test('an artifact continues after a restart at any point of a part', async () => {
  const runs = tempFolder()
  const write = (part: number, text: string, final = false) =>
    new ArtifactsOnDisk(runs).write(runId(1), 'a', part, Buffer.from(text), final)
  await write(0, 'zero ')
  const parts = join(runs, runId(1), 'parts')
  // Simulates a crash after the bytes of part 1, before the part counted.
  appendFileSync(join(parts, readdirSync(parts)[0] ?? ''), 'one and mo')
  expect(await write(1, 'one ')).toBe('kept')
  expect(await write(0, 'zero ')).toBe('kept')
  expect(await write(1, 'one ')).toBe('kept')
  expect(await write(2, 'two', true)).toBe('kept')
  expect(readFileSync(join(runs, runId(1), 'artifacts', 'a'), 'utf8')).toBe('zero one two')
  expect(readdirSync(parts)).toEqual([])
})

test('an artifact stays refused after a restart at any point of its refusal', async () => {
  const runs = tempFolder()
  const parts = join(runs, runId(1), 'parts')
  const write = (part: number, bytes: number, final = false) =>
    new ArtifactsOnDisk(runs).write(runId(1), 'a', part, Buffer.alloc(bytes), final, 100)
  const refused = { refused: expect.stringContaining('100 bytes') }
  await write(0, 60)
  const [draft = ''] = readdirSync(parts)
  expect(await write(1, 50)).toMatchObject(refused)
  const [refusal = '', ...others] = readdirSync(parts)
  expect(others).toEqual([])
  expect(await write(1, 50)).toMatchObject(refused)
  // Simulates a crash before the draft was removed.
  writeFileSync(join(parts, draft), Buffer.alloc(60))
  expect(await write(1, 40)).toMatchObject(refused)
  expect(readdirSync(parts)).toEqual([refusal])
  // Simulates a crash before the reason was written.
  writeFileSync(join(parts, draft), Buffer.alloc(60))
  writeFileSync(join(parts, refusal), '')
  expect(await write(1, 50)).toMatchObject(refused)
  expect(await write(2, 1, true)).toMatchObject(refused)
  expect(await write(0, 100, true)).toBe('kept')
  expect(readdirSync(parts)).toEqual([])
})

test('an artifact that grows too large is refused and leaves only the refusal', async () => {
  const runs = tempFolder()
  const artifacts = new ArtifactsOnDisk(runs, undefined, 10)
  expect(await artifacts.write(runId(1), 'a', 0, Buffer.from('12345678'), false)).toBe('kept')
  expect(await artifacts.write(runId(1), 'a', 1, Buffer.from('345'), true)).toMatchObject({
    refused: expect.stringContaining('larger'),
  })
  expect(readdirSync(join(runs, runId(1), 'parts'))).toEqual([expect.stringMatching(/\.1\.refused$/)])
})

test('a system error is not mistaken for an unusual file', async () => {
  let runs = tempFolder()
  // The path is so long that the artifact folder can exist, but no file in it.
  while (runs.length < 3_700) runs = join(runs, 'd'.repeat(200))
  runs = join(runs, 'd'.repeat(4_000 - runs.length))
  const folder = join(runs, runId(1), 'artifacts')
  mkdirSync(folder, { recursive: true })
  await expect(new ArtifactsOnDisk(runs).find(runId(1), 'x'.repeat(200))).rejects.toMatchObject({
    code: 'ENAMETOOLONG',
  })
})

test('unfinished artifacts count towards the limit of a run', async () => {
  const runs = tempFolder()
  const artifacts = new ArtifactsOnDisk(runs)
  const twin = new MemoryArtifacts()
  for (const each of [artifacts, twin]) {
    await each.write(runId(1), 'whole', 0, Buffer.from('x'), true)
    await each.write(runId(1), 'begun', 0, Buffer.from('x'), false)
  }
  const begun = RUN_ARTIFACTS_MAX - 2
  for (let n = 0; n < begun; n++) {
    writeFileSync(join(runs, runId(1), 'parts', `${n.toString(16).padStart(40, '0')}.1.0`), '')
    await twin.write(runId(1), `n${n}`, 0, Buffer.of(), false)
  }
  for (const each of [artifacts, twin]) {
    const write = (name: string) => each.write(runId(1), name, 0, Buffer.from('new'), false)
    expect(await write('more')).toMatchObject({ refused: expect.stringContaining('artifacts already') })
    expect(await write('begun')).toBe('kept')
    expect(await write('whole')).toBe('kept')
  }
})

// ---- usage and the whole store ---------------------------------------------------------------------------------

test('usage snapshots have the expected paths, and a link in the path is refused', async () => {
  const folder = tempFolder()
  const usage = new UsageOnDisk(join(folder, 'usage'))
  await usage.replace({ projectKey: 'p', sessionId: 's' }, '{}')
  await usage.replace({ projectKey: 'p', sessionId: 's', subagentId: 'a' }, '{}')
  expect(modeOf(join(folder, 'usage/p/s.json'))).toBe('600')
  expect(existsSync(join(folder, 'usage/p/s/a.json'))).toBe(true)
  symlinkSync(folder, join(folder, 'usage', 'q'))
  await expect(usage.replace({ projectKey: 'q', sessionId: 's' }, '{}')).rejects.toThrow(/not a plain folder/)
})

test('concurrent first writes of a project are all kept, and a removed folder is created again', async () => {
  const folder = join(tempFolder(), 'usage')
  mkdirSync(join(folder, 'p'), { recursive: true })
  writeFileSync(join(folder, 'p', '.s.json.k3.draft'), 'half')
  const usage = new UsageOnDisk(folder)
  const keys = Array.from({ length: 40 }, (_, n) => ({ projectKey: 'p', sessionId: `s${n + 10}` }))
  const writeAll = () => Promise.all(keys.map((key) => usage.replace(key, '{}')))
  await writeAll()
  expect(await usage.list('p')).toEqual(keys)
  expect(readdirSync(join(folder, 'p')).filter((name) => name.endsWith('.draft'))).toEqual([])
  rmSync(join(folder, 'p'), { recursive: true })
  await writeAll()
  expect(await usage.list('p')).toEqual(keys)
})

test('a store makes its data directory owner-only, refuses a second process, and releases the directory when closed', async () => {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir, { mode: 0o755 })
  const options = {
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 4096,
  }
  const store = await openStore(options)
  expect(modeOf(dataDir)).toBe('700')
  await expect(openStore(options)).rejects.toMatchObject({ name: 'DataDirInUse', isAlive: true })
  await store.config.replace(undefined, '{}')
  await store.close()
  await store.close()
  expect(readdirSync(dataDir).sort()).toEqual([
    'audit',
    'config.json',
    'installation.json',
    'lock.2',
    'runs',
    'state',
    'usage',
  ])
  writeFileSync(join(dataDir, '.launch.json.k3.draft'), 'half')
  const again = await openStore(options)
  expect(readdirSync(dataDir)).not.toContain('.launch.json.k3.draft')
  expect(await again.config.read()).toBe('{}')
  await again.close()
})
