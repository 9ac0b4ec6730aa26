/**
 * Tests of guarantees that only the store on disk gives: modes, formats, shapes, backups, a full disk, a quick start.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, jest, test } from '@jest/globals'
import { open } from 'lmdb'
import { realClock } from '../../../bin/process/clock.ts'
import { DamagedRecord } from '../../../core/damage.ts'
import type { Write } from '../../../core/ports/store.ts'
import { StoreBroken, StoreTooNew, StoreUnreadable } from '../../../store/errors.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { inheritableDescriptors } from '../../../store/lmdb/descriptors.ts'
import { costOfPuts, payloadOfPuts } from '../../../store/lmdb/encode-writes.ts'
import { FORMAT } from '../../../store/lmdb/origin.ts'
import { PAGE_BYTES, Preallocation } from '../../../store/lmdb/preallocation.ts'
import { RunIndexChanges } from '../../../store/lmdb/run-index.ts'
import { measureAsyncCpuMs } from '../../support/cpu-time.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { identifyDatabase, putRun, putSnapshot, runId, sampleRun, sampleSnapshot } from './samples.ts'

const openDatabase = (folder: string, emergencySpaceBytes = 0) =>
  new LmdbControlDatabase({
    folder,
    clock: realClock,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes,
    identifyDatabase,
  })

const openRaw = (folder: string) => open({ path: folder, noSubdir: false, overlappingSync: false })

function usedBytesOf(root: ReturnType<typeof openRaw>): number {
  // Every database has its environment, but lmdb's types omit it.
  const { env } = root as unknown as { readonly env: { info(): { lastPageNumber: number } } }
  return (env.info().lastPageNumber + 1) * PAGE_BYTES
}

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

test('the database and its emergency space are owner-only', async () => {
  const folder = join(diskFolder(), 'state.d')
  const database = openDatabase(folder, 32 * 1024)
  await database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
  await until('the emergency space exists', () => existsSync(join(folder, 'ballast')))
  expect(modeOf(folder)).toBe('700')
  expect(readdirSync(folder).sort()).toEqual(['ballast', 'data.mdb', 'last-use.json', 'lock.mdb'])
  for (const name of readdirSync(folder)) expect([name, modeOf(join(folder, name))]).toEqual([name, '600'])
  expect(statSync(join(folder, 'ballast')).blocks * 512).toBeGreaterThanOrEqual(32 * 1024)
  await database.close()
})

test('all data is there after reopening', async () => {
  const folder = diskFolder()
  const first = openDatabase(folder)
  await first.commit([
    putRun(sampleRun(1)),
    putRun(sampleRun(2, 'failed')),
    putSnapshot('lease', 'a', sampleSnapshot(1)),
  ])
  await first.close()
  const second = openDatabase(folder)
  expect(second.runs.list({})).toEqual([sampleRun(2, 'failed'), sampleRun(1)])
  expect(second.runs.count('failed')).toBe(1)
  expect(second.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(1))
  expect(second.snapshots.kinds()).toEqual(['lease'])
  await second.close()
})

test('more shapes than the codec can number are still readable after reopening', async () => {
  const folder = diskFolder()
  const record = (n: number) => ({ v: 1, s: 'held', c: { [`only${n}`]: { [`inner${n}`]: n, shared: 'x' } } })
  for (const from of [0, 300, 600]) {
    const database = openDatabase(folder)
    for (let n = 0; n < from; n++) expect(database.snapshots.get('lease', `k${n}`)).toEqual(record(n))
    await Promise.all(
      Array.from({ length: 300 }, (_, i) =>
        database.commit([putSnapshot('lease', `k${from + i}`, record(from + i))]),
      ),
    )
    for (let n = 0; n < from + 300; n++) expect(database.snapshots.get('lease', `k${n}`)).toEqual(record(n))
    await database.close()
  }
})

test('only the commit with an unstorable value is refused, and none of its writes is applied', async () => {
  const database = openDatabase(diskFolder())
  const odd = { v: 1, s: 'x', c: { odd: Symbol('odd') } }
  const [bad, longKey, good] = await Promise.allSettled([
    database.commit([putSnapshot('lease', 'half', sampleSnapshot(1)), putSnapshot('lease', 'odd', odd)]),
    database.commit([putSnapshot('lease', 'x'.repeat(600), sampleSnapshot(1))]),
    database.commit([putSnapshot('lease', 'good', sampleSnapshot(1))]),
  ])
  expect([bad?.status, longKey?.status, good?.status]).toEqual(['rejected', 'rejected', 'fulfilled'])
  expect([...database.snapshots.all('lease')].map(([key]) => key)).toEqual(['good'])
  expect(database.state()).toEqual({ is: 'ready' })
  await database.close()
})

test('a database of a newer program is refused and left unchanged', async () => {
  const folder = diskFolder()
  const newer = openRaw(folder)
  await newer.openDB<string, string>({ name: 'meta', encoding: 'string' }).put('format', String(FORMAT + 1))
  await newer.close()
  expect(() => openDatabase(folder)).toThrow(StoreTooNew)
  expect(() => openDatabase(folder)).toThrow(`format ${FORMAT + 1}, this one knows ${FORMAT}`)
  const after = openRaw(folder)
  expect([...after.getKeys()]).toEqual(['meta'])
  await after.close()
})

test.each([
  ['cannot be decoded', Buffer.from([0x93, 1])],
  ['is no run', Buffer.from([0x92, 1, 0x80])],
  ['is nothing at all', Buffer.from([0x92, 1, 0xc0])],
])('a run whose record %s fails only the commit that updates it', async (_name, bytes) => {
  const folder = diskFolder()
  const first = openDatabase(folder)
  await first.commit([putRun(sampleRun(1)), putRun(sampleRun(2))])
  await first.close()
  const raw = openRaw(folder)
  await raw.openDB<Uint8Array, string>({ name: 'runs', encoding: 'binary' }).put(runId(1), bytes)
  await raw.close()

  const database = openDatabase(folder)
  const bad = () =>
    database.commit([putSnapshot('lease', 'bad', sampleSnapshot(1)), putRun(sampleRun(1, 'failed'))])
  await expect(bad()).rejects.toThrow(DamagedRecord)
  const odd = { v: 1, s: 'x', c: { aShapeOfItsOwn: 1 } }
  const settled = await Promise.allSettled([
    database.commit([putSnapshot('lease', 'good', odd)]),
    bad(),
    database.commit([putRun(sampleRun(2, 'failed')), putRun(sampleRun(3))]),
  ])
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(database.state()).toEqual({ is: 'ready' })
  await database.close()

  const again = openDatabase(folder)
  expect([...again.snapshots.all('lease')]).toEqual([['good', odd]])
  expect([again.runs.count('queued'), again.runs.count('failed')]).toEqual([2, 1])
  expect(again.runs.get(runId(2))).toEqual(sampleRun(2, 'failed'))
  await again.close()
})

test('the indexes follow a run through its statuses, another ticket, its removal and a new record', async () => {
  const database = openDatabase(diskFolder())
  const { runs } = database
  const found = (): unknown => ({
    queued: runs.list({ status: ['queued'] }).length,
    active: runs.list({ status: ['preparing', 'running'] }).length,
    completed: runs.list({ status: ['completed'] }).length,
    a: runs.list({ ticket: 'a' }).length,
    b: runs.list({ ticket: 'b' }).length,
    count: [runs.count('queued'), runs.count('running'), runs.count('completed'), runs.count()],
  })
  const none = { queued: 0, active: 0, completed: 0, a: 0, b: 0 }
  const steps: [Write, unknown][] = [
    [putRun(sampleRun(1, 'queued', 'a')), { ...none, queued: 1, a: 1, count: [1, 0, 0, 1] }],
    [putRun(sampleRun(1, 'queued', 'b')), { ...none, queued: 1, b: 1, count: [1, 0, 0, 1] }],
    [putRun(sampleRun(1, 'running', 'b')), { ...none, active: 1, b: 1, count: [0, 1, 0, 1] }],
    [putRun(sampleRun(1, 'completed', 'b')), { ...none, completed: 1, b: 1, count: [0, 0, 1, 1] }],
    [putRun(sampleRun(1, 'queued', 'b')), { ...none, queued: 1, b: 1, count: [1, 0, 0, 1] }],
    [
      { table: 'run', id: runId(1), run: null },
      { ...none, count: [0, 0, 0, 0] },
    ],
    [putRun(sampleRun(1, 'queued', 'a')), { ...none, queued: 1, a: 1, count: [1, 0, 0, 1] }],
  ]
  for (const [write, expected] of steps) {
    await database.commit([write])
    expect(found()).toEqual(expected)
  }
  await database.close()
})

test('a run and its actor are one row', async () => {
  const folder = diskFolder()
  const database = openDatabase(folder)
  await database.commit([putRun(sampleRun(1)), putSnapshot('run', runId(1), sampleSnapshot(1))])
  await database.commit([putSnapshot('run', runId(1), sampleSnapshot(2))])
  await database.close()
  const raw = openRaw(folder)
  expect(raw.openDB({ name: 'runs', encoding: 'binary' }).getCount()).toBe(1)
  expect(raw.openDB({ name: 'life:run', encoding: 'binary' }).getCount()).toBe(0)
  await raw.close()
  const again = openDatabase(folder)
  expect(again.runs.get(runId(1))).toEqual(sampleRun(1))
  expect(again.snapshots.get('run', runId(1))).toEqual(sampleSnapshot(2))
  await again.close()
})

test('a damaged row fails the commit that keeps a part of it, and no other', async () => {
  const folder = diskFolder()
  const first = openDatabase(folder)
  await first.commit([putRun(sampleRun(1)), putSnapshot('run', runId(1), sampleSnapshot(1))])
  await first.close()
  const raw = openRaw(folder)
  await raw
    .openDB<Uint8Array, string>({ name: 'runs', encoding: 'binary' })
    .put(runId(1), Buffer.from([0xc1, 1]))
  await raw.close()
  const database = openDatabase(folder)
  const [bad, good] = await Promise.allSettled([
    database.commit([putSnapshot('run', runId(1), sampleSnapshot(2)), putRun(sampleRun(3))]),
    database.commit([putRun(sampleRun(2))]),
  ])
  expect(bad).toMatchObject({ status: 'rejected', reason: { name: 'DamagedRecord' } })
  expect(good.status).toBe('fulfilled')
  expect([...database.snapshots.all('run')]).toEqual([[runId(1), { damaged: expect.any(String) }]])
  expect([database.state().is, database.runs.get(runId(3))]).toEqual(['ready', undefined])
  await database.close()
})

test('a commit that changes only the actors of runs with long tickets stays within what is set aside for it', async () => {
  const folder = diskFolder()
  const database = openDatabase(folder)
  const runs = Array.from({ length: 250 }, (_, n) => {
    const run = sampleRun(n)
    return { ...run, ticket: { ...run.ticket, description: 'A paragraph.\n'.repeat(3_000) } }
  })
  await database.commit(runs.map(putRun))
  const reserved: number[] = []
  const spy = jest.spyOn(Preallocation.prototype, 'use').mockImplementation((bytes) => {
    reserved.push(bytes)
  })
  const root = openRaw(folder)
  const before = usedBytesOf(root)
  await database.commit(runs.map(({ id }, n) => putSnapshot('run', id, sampleSnapshot(n))))
  spy.mockRestore()
  expect(usedBytesOf(root) - before).toBeGreaterThan(5_000_000)
  expect(usedBytesOf(root) - before).toBeLessThanOrEqual(reserved[0] ?? 0)
  await root.close()
  await database.close()
})

test('a database that breaks within a batch still writes counts and structures of the finished puts', async () => {
  const folder = diskFolder()
  const database = openDatabase(folder)
  const change = RunIndexChanges.prototype.change
  const spy = jest.spyOn(RunIndexChanges.prototype, 'change').mockImplementation(function (
    this: RunIndexChanges,
    id,
    fields,
  ) {
    if (id === runId(2)) throw new Error('gone from under us')
    change.call(this, id, fields)
  })
  const commits = [1, 2, 3].map((n) => database.commit([putRun(sampleRun(n, 'failed'))]))
  const closed = database.close()
  for (const commit of commits) await expect(commit).rejects.toThrow(StoreBroken)
  await closed
  spy.mockRestore()
  const again = openDatabase(folder)
  expect(again.runs.list({ status: ['failed'] })).toEqual([sampleRun(1, 'failed')])
  expect(again.runs.count('failed')).toBe(1)
  await again.close()
})

test('unfinished emergency space of an earlier process is removed', async () => {
  const folder = diskFolder()
  writeFileSync(join(folder, 'ballast.tmp'), 'x'.repeat(4096))
  const database = openDatabase(folder)
  expect(existsSync(join(folder, 'ballast.tmp'))).toBe(false)
  await database.close()
})

test.each([
  ['of text', 'x'.repeat(10_000)],
  ['of zeros, as a power cut leaves it', '\0'.repeat(8192)],
  ['cut short', 'x'],
])('a file %s is refused as a database, and its folder is named', (_name, text) => {
  const folder = diskFolder()
  writeFileSync(join(folder, 'data.mdb'), text)
  expect(() => openDatabase(folder)).toThrow(StoreUnreadable)
  expect(() => openDatabase(folder)).toThrow(folder)
})

test('a backup taken while writing opens, and has all earlier acknowledged data', async () => {
  const folder = diskFolder()
  const database = openDatabase(join(folder, 'state'))
  for (let n = 0; n < 50; n++) await database.commit([putSnapshot('lease', `k${n}`, sampleSnapshot(n))])
  const copying = database.backup(join(folder, 'copy'))
  const writing = Array.from({ length: 50 }, (_, n) =>
    database.commit([putSnapshot('lease', `late${n}`, sampleSnapshot(n))]),
  )
  await copying
  await Promise.all(writing)
  await database.close()
  const copy = openDatabase(join(folder, 'copy'))
  for (let n = 0; n < 50; n++) expect(copy.snapshots.get('lease', `k${n}`)).toEqual(sampleSnapshot(n))
  expect(modeOf(join(folder, 'copy', 'data.mdb'))).toBe('600')
  await copy.close()
})

test('20,000 stored runs do not slow the start down', async () => {
  const folder = diskFolder()
  const first = openDatabase(folder)
  for (let from = 0; from < 20_000; from += 1_000) {
    await first.commit(Array.from({ length: 1_000 }, (_, i) => putRun(sampleRun(from + i, 'completed'))))
  }
  await first.close()
  let second = first
  const started = await measureAsyncCpuMs(() => {
    second = openDatabase(folder)
    expect(second.runs.count()).toBe(20_000)
    expect(second.runs.list({ limit: 3 }).map(({ id }) => id)).toEqual([19_999, 19_998, 19_997].map(runId))
  })
  const readAll = await measureAsyncCpuMs(() => expect(second.runs.list({})).toHaveLength(20_000))
  expect(started).toBeLessThan(readAll / 4)
  await second.close()
})

test('inheritable descriptors are listed, the database included', async () => {
  const database = openDatabase(diskFolder())
  const descriptors = inheritableDescriptors()
  expect(descriptors.length).toBeGreaterThan(0)
  const nowhere = openSync('/dev/null', 'r+')
  const stdio = Array.from({ length: Math.max(...descriptors) + 1 }, (_, fd) =>
    fd === 1 ? ('pipe' as const) : nowhere,
  )
  const listed = spawnSync('ls', ['-l', '/proc/self/fd'], { stdio }).output[1]?.toString()
  closeSync(nowhere)
  expect(listed).toContain('/dev/null')
  expect(listed).not.toContain('data.mdb')
  await database.close()
})

test('a full disk: no data is lost, commits continue with the emergency space, and the store recovers once there is space', async () => {
  const mounted = diskFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', mounted]).status !== 0) {
    // Only root may mount a disk. The failing disk of the other tests stands in for it.
    return
  }
  const filler = join(mounted, 'filler')
  const database = openDatabase(join(mounted, 'state'), 2 * 1024 * 1024)
  try {
    await until('the emergency space exists', () => existsSync(join(mounted, 'state', 'ballast')))
    const states: string[] = []
    database.onState(({ is }) => states.push(is))
    spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'])
    const big = (n: number) => ({ ...sampleSnapshot(n), c: { n, text: 'x'.repeat(100_000) } })
    const acknowledged = new Set<number>()
    const commits = Array.from({ length: 120 }, async (_, n) => {
      await database.commit([putSnapshot('lease', `k${n}`, big(n))])
      acknowledged.add(n)
    })
    await until('the full disk is noticed', () => states.includes('degraded'))
    rmSync(filler)
    await Promise.all(commits)
    await until('the store is ready', () => database.state().is === 'ready')
    expect(states).toEqual(['degraded', 'ready'])
    expect(acknowledged.size).toBe(120)
    for (let n = 0; n < 120; n++) expect(database.snapshots.get('lease', `k${n}`)).toEqual(big(n))
    // The emergency space is created again in the background.
    await until('the emergency space exists again', () => existsSync(join(mounted, 'state', 'ballast')))
  } finally {
    await database.close()
    execFileSync('umount', [mounted])
  }
})

test('no transaction uses more of the file than its upper bound', async () => {
  const folder = diskFolder()
  const database = openDatabase(folder)
  const root = openRaw(folder)
  const usedBytes = () => usedBytesOf(root)
  const mark = (n: number, chars: number) => ({
    table: 'key-value' as const,
    collection: 'mark' as const,
    key: String(n).padStart(8, '0'),
    value: { text: 'x'.repeat(chars) },
  })
  await database.commit(Array.from({ length: 40_000 }, (_, n) => mark(n, 100)))
  // A record on each full page grows, so that each page is split for few new bytes.
  const grown = Array.from({ length: 1_400 }, (_, n) => mark(n * 28, 450))
  const puts = grown.map(({ key }) => ({ to: 'key-value' as const, key, bytes: Buffer.alloc(450) }))
  const before = usedBytes()
  const reserve = new Preallocation(join(folder, 'data.mdb'), usedBytes)
  const atMost = reserve.upperBound(costOfPuts(puts), payloadOfPuts(puts))
  reserve.close()
  await database.commit(grown)
  expect(usedBytes() - before).toBeGreaterThan(1.9 * before)
  expect(usedBytes() - before).toBeLessThanOrEqual(atMost)
  await root.close()
  await database.close()
})
