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
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realChance, realClock } from '../../bin/clock.ts'
import { ArtifactsOnDisk } from '../../store/files/artifacts.ts'
import { replaceFile, sweepDrafts } from '../../store/files/atomic.ts'
import { ConfigFileOnDisk } from '../../store/files/config-file.ts'
import { EventLogsOnDisk } from '../../store/files/event-log.ts'
import { UsageOnDisk } from '../../store/files/usage.ts'
import { openStore } from '../../store/store.ts'
import { keptLog, noMeters } from '../support/quiet.ts'
import { Random } from '../support/random.ts'
import { tempFolder, until } from '../support/real.ts'
import { logEvent, logEvents, runId } from './samples.ts'

const AT = '2026-01-31T12:00:00.000Z'
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

test('of copies set aside the newest few are kept', async () => {
  const folder = tempFolder()
  const config = configIn(folder)
  writeFileSync(join(folder, 'config.json'), 'mine')
  writeFileSync(join(folder, 'config.json.bak.rejected'), 'mine too')
  const copies: string[] = []
  for (let n = 0; n < 12; n++) copies.push(await config.setAside(`${n}`))
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

// ---- event logs ------------------------------------------------------------------------------------------------

const fileOf = (runs: string, id = runId(1)) => join(runs, id, 'events.jsonl')

async function logOf(runs: string, count: number): Promise<void> {
  const events = new EventLogsOnDisk(runs)
  await events.open(runId(1), AT)
  await events.append(runId(1), logEvents(runId(1), 0, count))
  await events.closeAll()
}

test.each<[string, string]>([
  ['half a line', '{"runId":"x","index":3,"ty'],
  ['a line of zeros', `${'\0'.repeat(50)}\n`],
  ['a line that is no event, then half a line', '{"a":1}\n{"run'],
])('a log that ends in %s is cut back to its last event, says so once, and goes on', async (_name, tail) => {
  const runs = tempFolder()
  await logOf(runs, 3)
  appendFileSync(fileOf(runs), tail)
  const events = new EventLogsOnDisk(runs)
  const found = await events.open(runId(1), AT)
  expect(found).toMatchObject({ next: 4, cut: { bytes: tail.length } })
  await events.append(runId(1), [logEvent(runId(1), 4)])
  await events.closeAll()
  expect((await events.read(runId(1))).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4])
  expect(readFileSync(fileOf(runs), 'utf8')).toMatch(/"system","text":"\d+ bytes of unacknowledged/)
  expect(await events.open(runId(1), AT)).not.toHaveProperty('cut')
  await events.closeAll()
})

test('a log that is shorter than what was acknowledged says how much is missing', async () => {
  const runs = tempFolder()
  await logOf(runs, 3)
  const events = new EventLogsOnDisk(runs)
  const { size } = statSync(fileOf(runs))
  expect(await events.open(runId(1), AT, size + 100)).toMatchObject({ next: 4, cut: { bytes: 100 } })
  expect(await events.open(runId(2), AT, 55)).toMatchObject({ next: 1, cut: { bytes: 55 } })
  await events.closeAll()
})

test('a reader of a log that is being written never sees half a line', async () => {
  const runs = tempFolder()
  const events = new EventLogsOnDisk(runs)
  await events.open(runId(1), AT)
  let done = false
  const writing = (async () => {
    for (let n = 0; n < 300; n++)
      await events.append(runId(1), [logEvent(runId(1), n, 'x'.repeat((n * 997) % 9_000))])
    done = true
  })()
  while (!done) {
    const seen = await events.read(runId(1))
    expect(seen.map(({ index }) => index)).toEqual(seen.map((_, n) => n))
  }
  await writing
  expect(await events.read(runId(1))).toHaveLength(300)
  await events.closeAll()
})

test('any index is found in a large log, with lines of all lengths', async () => {
  const runs = tempFolder()
  const random = new Random(5)
  const all = Array.from({ length: 4_000 }, (_, n) =>
    logEvent(runId(1), n, 'y'.repeat(random.chance(0.01) ? 300_000 : random.below(900))),
  )
  const events = new EventLogsOnDisk(runs)
  await events.open(runId(1), AT)
  for (let from = 0; from < all.length; from += 500)
    await events.append(runId(1), all.slice(from, from + 500))
  for (const after of [
    -1,
    0,
    1,
    1_999,
    3_998,
    3_999,
    ...Array.from({ length: 40 }, () => random.below(4_000)),
  ]) {
    const found = await events.read(runId(1), { after, limit: 2 })
    expect(found.map(({ index }) => index)).toEqual([after + 1, after + 2].filter((index) => index < 4_000))
  }
  await events.closeAll()
})

test('many logs are written at once with few files open', async () => {
  const runs = tempFolder()
  const events = new EventLogsOnDisk(runs, 4)
  const ids = Array.from({ length: 40 }, (_, n) => runId(n))
  const openFiles = () => readdirSync('/proc/self/fd').length
  const before = openFiles()
  await Promise.all(ids.map((id) => events.open(id, AT)))
  for (let n = 0; n < 5; n++) {
    await Promise.all(ids.map((id) => events.append(id, [logEvent(id, n)])))
    await Promise.all(ids.map((id) => events.sync(id)))
  }
  expect(openFiles() - before).toBeLessThan(20)
  for (const id of ids) expect(await events.read(id)).toEqual(logEvents(id, 0, 5))
  await events.closeAll()
})

test('an append that fails leaves no trace, and the next one goes on where the last good one ended', async () => {
  const runs = tempFolder()
  const events = new EventLogsOnDisk(runs)
  mkdirSync(join(runs, runId(1)))
  await events.open(runId(1), AT)
  // A folder in the file's place makes the write fail; once it is gone the log must not have a hole.
  mkdirSync(fileOf(runs))
  const failing = [
    events.append(runId(1), logEvents(runId(1), 0, 2)),
    events.append(runId(1), logEvents(runId(1), 2, 3)),
  ]
  expect((await Promise.allSettled(failing)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  renameSync(fileOf(runs), join(runs, 'away'))
  await events.append(runId(1), logEvents(runId(1), 0, 3))
  await events.closeAll()
  expect(await events.read(runId(1))).toEqual(logEvents(runId(1), 0, 3))
})

test('names that are no run ids reach no disk', async () => {
  const events = new EventLogsOnDisk(tempFolder())
  for (const id of ['..', '../x', 'a/b', ''])
    await expect((async () => events.read(id))()).rejects.toThrow(TypeError)
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

// ---- the whole -------------------------------------------------------------------------------------------------

test('usage snapshots lie where they should, and a link in the way is refused', async () => {
  const folder = tempFolder()
  const usage = new UsageOnDisk(join(folder, 'usage'))
  await usage.replace({ projectKey: 'p', sessionId: 's' }, '{}')
  await usage.replace({ projectKey: 'p', sessionId: 's', subagentId: 'a' }, '{}')
  expect(modeOf(join(folder, 'usage/p/s.json'))).toBe('600')
  expect(existsSync(join(folder, 'usage/p/s/a.json'))).toBe(true)
  symlinkSync(folder, join(folder, 'usage', 'q'))
  await expect(usage.replace({ projectKey: 'q', sessionId: 's' }, '{}')).rejects.toThrow(
    /not a folder of ours/,
  )
})

test('a store makes its data directory owner-only, refuses a second, and lets go when closed', async () => {
  const dataDir = join(tempFolder(), 'data')
  mkdirSync(dataDir, { mode: 0o755 })
  const options = {
    dataDir,
    clock: realClock,
    chance: realChance,
    log: keptLog(),
    meters: noMeters,
    ballastBytes: 4096,
  }
  const store = await openStore(options)
  expect(modeOf(dataDir)).toBe('700')
  await expect(openStore(options)).rejects.toMatchObject({ name: 'DataDirInUse', pid: process.pid })
  await store.config.replace(undefined, '{}')
  await store.close()
  await store.close()
  expect(readdirSync(dataDir).sort()).toEqual(['config.json', 'lock.2', 'runs', 'state', 'usage'])
  const again = await openStore(options)
  expect(await again.config.read()).toBe('{}')
  await again.close()
})
