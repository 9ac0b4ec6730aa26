/** Files that crash, hands and hostile agents leave in the way of the store. */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
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
import { realChance, realClock } from '../../../bin/clock.ts'
import { RUN_ARTIFACTS_MAX } from '../../../protocol/limits.ts'
import { ArtifactsOnDisk } from '../../../store/files/artifacts.ts'
import { replaceFile, sweepDrafts } from '../../../store/files/atomic.ts'
import { ConfigFileOnDisk } from '../../../store/files/config-file.ts'
import { UsageOnDisk } from '../../../store/files/usage.ts'
import { MemoryArtifacts } from '../../../store/memory/artifacts.ts'
import { openStore } from '../../../store/store.ts'
import { tempFolder, until } from '../../support/real-files.ts'
import { keptLog, noMeters } from '../../support/recording-log.ts'
import { runId } from './samples.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)
const configIn = (folder: string) => new ConfigFileOnDisk(join(folder, 'config.json'), realClock, keptLog())

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

test('a sweep takes no draft that is being written', async () => {
  const folder = tempFolder()
  for (let round = 0; round < 20; round++) {
    const replacing = replaceFile(join(folder, 'a'), `${round} ${'x'.repeat(100_000)}`)
    await Promise.all([replacing, sweepDrafts(folder), sweepDrafts(folder)])
    expect(readFileSync(join(folder, 'a'), 'utf8').startsWith(`${round} `)).toBe(true)
  }
})

test('whoever replaces a file may call it off when the draft is already whole', async () => {
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

test('a configuration file that is a link stays one; what it points at is replaced and owner-only', async () => {
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

test('a hand edit that comes while the replacement is being written is not lost', async () => {
  const folder = tempFolder()
  const path = join(folder, 'config.json')
  writeFileSync(path, 'old')
  const replacing = configIn(folder).replace('old', 'x'.repeat(1_000_000))
  // Seen in the turn in which it is made, long before it is written and synced.
  while (readdirSync(folder).length === 1) await new Promise((resolve) => setImmediate(resolve))
  writeFileSync(path, 'by hand')
  expect(await replacing).toEqual({ is: 'changed', text: 'by hand' })
  expect(readdirSync(folder)).toEqual(['config.json'])
  expect(readFileSync(path, 'utf8')).toBe('by hand')
})

test('only drafts of the configuration file itself are swept, whatever else lies beside it', async () => {
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

test('a linked configuration file that is not ours to change is warned of', async () => {
  const folder = tempFolder()
  // The kernel lets nobody change the mode of this one.
  symlinkSync('/proc/self/status', join(folder, 'config.json'))
  const log = keptLog()
  await new ConfigFileOnDisk(join(folder, 'config.json'), realClock, log).tidy()
  expect(JSON.stringify(log.lines)).toMatch(/may not change its mode to 0600/)
})

test('of copies set aside the newest few are kept', async () => {
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

test('every way of editing is heard, again and again', async () => {
  const folder = tempFolder()
  const path = join(folder, 'config.json')
  const config = configIn(folder)
  let heard = 0
  const stop = config.watch(() => heard++)
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
    const before = heard
    edit()
    await until('the edit is heard', () => heard > before)
  }
  stop()
  const after = heard
  writeFileSync(path, '5')
  await new Promise((resolve) => setTimeout(resolve, 250))
  expect(heard).toBe(after)
})

// ---- artifacts -------------------------------------------------------------------------------------------------

test('what is not a plain file of ours is not handed out', async () => {
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

test('an artifact goes on after a restart at any point of a part', async () => {
  const runs = tempFolder()
  const write = (part: number, text: string, final = false) =>
    new ArtifactsOnDisk(runs).write(runId(1), 'a', part, Buffer.from(text), final)
  await write(0, 'zero ')
  const parts = join(runs, runId(1), 'parts')
  // The crash came after the bytes of part 1, before it counted.
  appendFileSync(join(parts, readdirSync(parts)[0] ?? ''), 'one and mo')
  expect(await write(1, 'one ')).toBe('kept')
  expect(await write(0, 'zero ')).toBe('kept')
  expect(await write(1, 'one ')).toBe('kept')
  expect(await write(2, 'two', true)).toBe('kept')
  expect(readFileSync(join(runs, runId(1), 'artifacts', 'a'), 'utf8')).toBe('zero one two')
  expect(readdirSync(parts)).toEqual([])
})

test('an artifact that grows too large is refused and leaves nothing', async () => {
  const runs = tempFolder()
  const artifacts = new ArtifactsOnDisk(runs, 10)
  expect(await artifacts.write(runId(1), 'a', 0, Buffer.from('12345678'), false)).toBe('kept')
  expect(await artifacts.write(runId(1), 'a', 1, Buffer.from('345'), true)).toMatchObject({
    refused: expect.stringContaining('larger'),
  })
  expect(readdirSync(join(runs, runId(1), 'parts'))).toEqual([])
})

test('a failure of the system is not taken for an odd file', async () => {
  let runs = tempFolder()
  // So deep that the artifact folder can just be named, and nothing in it.
  while (runs.length < 3_700) runs = join(runs, 'd'.repeat(200))
  runs = join(runs, 'd'.repeat(4_000 - runs.length))
  const folder = join(runs, runId(1), 'artifacts')
  mkdirSync(folder, { recursive: true })
  await expect(new ArtifactsOnDisk(runs).find(runId(1), 'x'.repeat(200))).rejects.toMatchObject({
    code: 'ENAMETOOLONG',
  })
})

test('artifacts that were begun count against how many a run may have', async () => {
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

// ---- the whole -------------------------------------------------------------------------------------------------

test('usage snapshots lie where they should, and a link in the way is refused', async () => {
  const folder = tempFolder()
  const usage = new UsageOnDisk(join(folder, 'usage'))
  await usage.replace({ projectKey: 'p', sessionId: 's' }, '{}')
  await usage.replace({ projectKey: 'p', sessionId: 's', subagentId: 'a' }, '{}')
  expect(modeOf(join(folder, 'usage/p/s.json'))).toBe('600')
  expect(existsSync(join(folder, 'usage/p/s/a.json'))).toBe(true)
  symlinkSync(folder, join(folder, 'usage', 'q'))
  await expect(usage.replace({ projectKey: 'q', sessionId: 's' }, '{}')).rejects.toThrow(/not a plain folder/)
})

test('first writes of one project at once do not lose each other, and a removed folder is made anew', async () => {
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

test('a store makes its data directory owner-only, refuses a second, and lets go when closed', async () => {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir, { mode: 0o755 })
  const options = {
    dataDir,
    clock: realClock,
    random: realChance,
    log: keptLog(),
    meters: noMeters,
    emergencySpaceBytes: 4096,
  }
  const store = await openStore(options)
  expect(modeOf(dataDir)).toBe('700')
  await expect(openStore(options)).rejects.toMatchObject({ name: 'DataDirInUse', pid: process.pid })
  await store.config.replace(undefined, '{}')
  await store.close()
  await store.close()
  expect(readdirSync(dataDir).sort()).toEqual(['config.json', 'lock.2', 'runs', 'state', 'usage'])
  writeFileSync(join(dataDir, '.launch.json.k3.draft'), 'half')
  const again = await openStore(options)
  expect(readdirSync(dataDir)).not.toContain('.launch.json.k3.draft')
  expect(await again.config.read()).toBe('{}')
  await again.close()
})
