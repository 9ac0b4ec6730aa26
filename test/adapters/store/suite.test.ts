/** Tests of the guarantees that the store on disk and the in-memory store share. */
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { ActorSnapshot, ArtifactLookup, Store, Write } from '../../../core/ports/store.ts'
import type { Run } from '../../../protocol/run.ts'
import { openStore } from '../../../store/store.ts'
import { readEvents } from '../../support/event-batches.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createMemoryStore } from '../../support/memory-store.ts'
import { Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import {
  logEvent,
  logEvents,
  putEvents,
  putKeyValue,
  putRun,
  putSnapshot,
  runId,
  sampleRun,
  sampleSnapshot,
} from './samples.ts'

const factories: [string, (clock?: Clock) => Promise<Store>][] = [
  ['lmdb and files', (clock) => openOnDisk(diskFolder(), clock)],
  ['memory', async (clock = realClock) => createMemoryStore({ clock })],
]

const opened: Store[] = []

function openOnDisk(dataDir: string, clock = realClock): Promise<Store> {
  return openStore({
    dataDir,
    clock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 4096,
  })
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

describe.each(factories)('%s', (_name, make) => {
  async function open(clock?: Clock): Promise<Store> {
    const store = await make(clock)
    opened.push(store)
    return store
  }

  test('a commit is invisible before it is durable, and complete afterwards', async () => {
    const { database } = await open()
    const committing = database.commit([putSnapshot('lease', 'a', sampleSnapshot(1)), putRun(sampleRun(1))])
    expect(database.snapshots.get('lease', 'a')).toBeUndefined()
    expect(database.runs.get(runId(1))).toBeUndefined()
    await committing
    expect(database.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(1))
    expect(database.runs.get(runId(1))).toEqual(sampleRun(1))
  })

  test('commits of one turn are applied in the order of the calls', async () => {
    const { database } = await open()
    const order: number[] = []
    await Promise.all(
      [1, 2, 3, 4].map((n) =>
        database
          .commit(n === 3 ? [] : [putSnapshot('lease', 'a', sampleSnapshot(n))])
          .then(() => order.push(n)),
      ),
    )
    expect(database.snapshots.get('lease', 'a')).toEqual(sampleSnapshot(4))
    expect(order.filter((n) => n !== 3)).toEqual([1, 2, 4])
  })

  test('later changes of an object do not affect its commit', async () => {
    const { database } = await open()
    const fields = { n: 1 }
    const first = database.commit([putSnapshot('lease', 'a', { v: 1, s: 'held', c: fields })])
    fields.n = 2
    await first
    expect(database.snapshots.get('lease', 'a')?.c).toEqual({ n: 1 })
  })

  test('snapshots are listed by kind in key order; removed ones are gone', async () => {
    const { database } = await open()
    await database.commit(['c', 'a', 'b'].map((key, n) => putSnapshot('worker', key, sampleSnapshot(n))))
    await database.commit([putSnapshot('lease', 'x', sampleSnapshot(9)), putSnapshot('worker', 'b', null)])
    expect([...database.snapshots.all('worker')].map(([key]) => key)).toEqual(['a', 'c'])
    expect([...database.snapshots.all('nothing')]).toEqual([])
    expect(database.snapshots.kinds()).toEqual(['lease', 'worker'])
  })

  test('many snapshots are all listed', async () => {
    const { database } = await open()
    const keys = Array.from({ length: 1_000 }, (_, n) => `k${String(n).padStart(5, '0')}`)
    await Promise.all(keys.map((key, n) => database.commit([putSnapshot('lease', key, sampleSnapshot(n))])))
    expect([...database.snapshots.all('lease')].map(([key]) => key)).toEqual(keys)
  })

  test('runs are listed newest first, by status, ticket and page', async () => {
    const { database } = await open()
    const statuses = ['queued', 'running', 'completed'] as const
    const runs = Array.from({ length: 90 }, (_, n) => sampleRun(n, statuses[n % 3], `t-${n % 4}`))
    await database.commit(runs.map(putRun))
    const newest = runs.toReversed()
    const idsOf = (found: readonly { id: string }[]) => found.map(({ id }) => id)
    expect(idsOf(database.runs.list({}))).toEqual(idsOf(newest))
    expect(idsOf(database.runs.list({ limit: 3, before: runId(50) }))).toEqual([49, 48, 47].map(runId))
    const some = newest.filter(({ status }) => status !== 'running')
    expect(idsOf(database.runs.list({ status: ['queued', 'completed'], limit: 40 }))).toEqual(
      idsOf(some.slice(0, 40)),
    )
    const ticket = newest.filter(({ ticket }) => ticket.id === 't-2')
    expect(idsOf(database.runs.list({ ticket: 't-2' }))).toEqual(idsOf(ticket))
    expect(idsOf(database.runs.list({ ticket: 'ENG-t-2' }))).toEqual(idsOf(ticket))
    const both = ticket.filter(({ status, id }) => status === 'queued' && id < runId(60))
    expect(idsOf(database.runs.list({ ticket: 't-2', status: ['queued'], before: runId(60) }))).toEqual(
      idsOf(both),
    )
    expect(database.runs.list({ status: [] })).toEqual([])
    expect(database.runs.list({ limit: 0 })).toEqual([])
    expect(database.runs.list({ ticket: 't-99' })).toEqual([])
    expect(database.runs.count()).toBe(90)
    expect(database.runs.count('running')).toBe(30)
    expect(database.runs.count('failed')).toBe(0)
  })

  test('after any sequence of changes, indexes and counts agree with the records', async () => {
    const { database } = await open()
    const random = new Random(11)
    const statuses = ['queued', 'running', 'failed', 'cancelled'] as const
    const model = new Map<string, ReturnType<typeof sampleRun>>()
    for (let round = 0; round < 60; round++) {
      const commits = Array.from({ length: 1 + random.below(6) }, () =>
        Array.from({ length: 1 + random.below(3) }, () => {
          const n = random.below(25)
          const run = random.chance(0.15) ? null : sampleRun(n, random.pick(statuses), `t-${random.below(3)}`)
          if (run === null) model.delete(runId(n))
          else model.set(runId(n), run)
          return { table: 'run', id: runId(n), run } as const
        }),
      )
      const committing = Promise.all(commits.map((writes) => database.commit(writes)))
      if (random.chance(0.6)) await committing
    }
    await database.commit([])
    await database.commit([putSnapshot('lease', 'last', sampleSnapshot(0))])
    const all = [...model.values()].sort((a, b) => (a.id < b.id ? 1 : -1))
    expect(database.runs.list({})).toEqual(all)
    for (const status of statuses) {
      const some = all.filter((run) => run.status === status)
      expect(database.runs.list({ status: [status] })).toEqual(some)
      expect(database.runs.count(status)).toBe(some.length)
    }
    for (const ticket of ['t-0', 't-1', 't-2']) {
      expect(database.runs.list({ ticket })).toEqual(all.filter((run) => run.ticket.id === ticket))
    }
    expect(database.runs.count()).toBe(all.length)
  })

  test('after any sequence of changes, the unfinished runs have their records and the actors written last', async () => {
    const { database } = await open()
    const random = new Random(12)
    const statuses = ['queued', 'running', 'failed'] as const
    const runs = new Map<string, Run>()
    const actors = new Map<string, ActorSnapshot>()
    const change = (n: number): Write[] => {
      const [id, run, actor] = [
        runId(n),
        sampleRun(n, random.pick(statuses)),
        sampleSnapshot(random.below(99)),
      ]
      const known = runs.get(id)
      // The actor alone, as where a lease is granted.
      if (known !== undefined && known.status !== 'failed' && random.chance(0.3)) {
        actors.set(id, actor)
        return [putSnapshot('run', id, actor)]
      }
      const isOver = run.status === 'failed'
      runs.set(id, run)
      if (isOver) actors.delete(id)
      else actors.set(id, actor)
      const isRemoved = isOver && random.chance(0.3)
      if (isRemoved) runs.delete(id)
      return [
        putSnapshot('run', id, isOver ? null : actor),
        isRemoved ? { table: 'run', id, run: null } : putRun(run),
      ]
    }
    for (let round = 0; round < 80; round++) {
      const commits = Array.from({ length: 1 + random.below(5) }, () =>
        Array.from({ length: 1 + random.below(3) }, () => change(random.below(20))).flat(),
      )
      const committing = Promise.all(commits.map((writes) => database.commit(writes)))
      if (random.chance(0.6)) await committing
    }
    await database.commit([])
    await database.commit([putSnapshot('lease', 'last', sampleSnapshot(0))])
    expect(database.runs.list({}).toReversed()).toEqual(inKeyOrder(runs).map(([, run]) => run))
    expect([...database.snapshots.all('run')]).toEqual(inKeyOrder(actors))
    for (const [id, actor] of actors) expect(database.snapshots.get('run', id)).toEqual(actor)
    expect(database.snapshots.get('run', runId(20))).toBeUndefined()
  })

  test('a run that is removed takes its actor along, also when it is stored again in the same turn', async () => {
    const { database } = await open()
    await database.commit([putRun(sampleRun(1)), putSnapshot('run', runId(1), sampleSnapshot(1))])
    await Promise.all([
      database.commit([{ table: 'run', id: runId(1), run: null }]),
      database.commit([putRun(sampleRun(1))]),
    ])
    expect(database.runs.get(runId(1))).toEqual(sampleRun(1))
    expect([...database.snapshots.all('run')]).toEqual([])
  })

  test('after closing, a commit is refused; pending commits are durable', async () => {
    const store = await open()
    const pending = store.database.commit([putSnapshot('lease', 'a', sampleSnapshot(1))])
    await store.close()
    await pending
    await expect(store.database.commit([putSnapshot('lease', 'b', sampleSnapshot(2))])).rejects.toMatchObject(
      {
        name: 'StoreClosed',
      },
    )
  })

  test('key-values are read by key and listed between two keys, per collection', async () => {
    const { database } = await open()
    const { keyValues } = database
    expect(keyValues.get('mark', 'a')).toBeUndefined()
    expect([...keyValues.all('mark')]).toEqual([])
    const committing = database.commit(['c', 'a', 'b', 'd'].map((key, n) => putKeyValue('mark', key, { n })))
    expect(keyValues.get('mark', 'a')).toBeUndefined()
    await committing
    await database.commit([
      putKeyValue('memory', 'a', { words: ['ünïcödé'] }),
      putKeyValue('errand', 'zz', {}),
    ])
    expect(keyValues.get('mark', 'a')).toEqual({ n: 1 })
    expect(keyValues.get('memory', 'a')).toEqual({ words: ['ünïcödé'] })
    const keys = (between?: { after?: string; until?: string }) => {
      const listed = [...keyValues.keys('mark', between)]
      expect([...keyValues.all('mark', between)].map(([key]) => key)).toEqual(listed)
      return listed
    }
    expect(keys()).toEqual(['a', 'b', 'c', 'd'])
    expect(keys({ after: 'a' })).toEqual(['b', 'c', 'd'])
    expect(keys({ until: 'c' })).toEqual(['a', 'b'])
    expect(keys({ after: 'a', until: 'c' })).toEqual(['b'])
    expect(keys({ after: 'c', until: 'a' })).toEqual([])
    expect([...keyValues.all('ended-lease')]).toEqual([])
    await database.commit([putKeyValue('mark', 'b', null), putKeyValue('mark', 'c', { n: 9 })])
    expect([...keyValues.all('mark')]).toEqual([
      ['a', { n: 1 }],
      ['c', { n: 9 }],
      ['d', { n: 3 }],
    ])
  })

  test('many key-values are all listed', async () => {
    const { database } = await open()
    const keys = Array.from({ length: 1_000 }, (_, n) => `k${String(n).padStart(5, '0')}`)
    await database.commit(keys.map((key, n) => putKeyValue('ended-lease', key, { n })))
    expect([...database.keyValues.all('ended-lease')]).toEqual(keys.map((key, n) => [key, { n }]))
    expect([...database.keyValues.all('ended-lease', { after: keys[998] ?? '' })]).toHaveLength(1)
    expect([...database.keyValues.keys('ended-lease')]).toEqual(keys)
  })

  test('events are read back unchanged, from any index, in any portion', async () => {
    const { database, events } = await open()
    const id = runId(1)
    expect(events.nextIndex(id)).toBe(0)
    const all = logEvents(id, 0, 300)
    for (const portion of [all.slice(0, 1), all.slice(1, 250), all.slice(250)]) {
      await database.commit([putEvents(id, portion)])
      expect(events.nextIndex(id)).toBe((portion.at(-1)?.index ?? 0) + 1)
    }
    expect(await readEvents(events, id)).toEqual(all)
    expect(await readEvents(events, id, { after: 248, limit: 3 })).toEqual(all.slice(249, 252))
    expect(await readEvents(events, id, { after: 0, limit: 1 })).toEqual(all.slice(1, 2))
    expect(await readEvents(events, id, { after: 299 })).toEqual([])
    expect(await readEvents(events, id, { after: 248, before: 252 })).toEqual(all.slice(249, 252))
    expect(await readEvents(events, id, { before: 1 })).toEqual(all.slice(0, 1))
    expect(await readEvents(events, id, { after: 298, before: 900 })).toEqual(all.slice(299))
    expect(await readEvents(events, id, { after: -1, before: 0 })).toEqual([])
    expect(await readEvents(events, id, { limit: 0 })).toEqual([])
    expect(await readEvents(events, runId(2))).toEqual([])
    await events.remove(id)
    expect(await readEvents(events, id)).toEqual([])
    expect(events.nextIndex(id)).toBe(0)
    await database.commit([putEvents(id, all.slice(0, 2))])
    expect(await readEvents(events, id)).toEqual(all.slice(0, 2))
  })

  test('events become visible with the rest of their commit, and not before', async () => {
    const { database, events } = await open()
    const id = runId(1)
    const committing = database.commit([putRun(sampleRun(1)), putEvents(id, logEvents(id, 0, 3))])
    const next = database.commit([putEvents(id, logEvents(id, 3, 5)), putEvents(id, logEvents(id, 5, 6))])
    expect(events.nextIndex(id)).toBe(0)
    const early = readEvents(events, id)
    expect(await early).toEqual([])
    await committing
    await next
    expect(events.nextIndex(id)).toBe(6)
    expect(await readEvents(events, id)).toEqual(logEvents(id, 0, 6))
  })

  test('events with a gap, a step back or a repetition in their indexes fail only their commit', async () => {
    const { database, events } = await open()
    const id = runId(1)
    await database.commit([putEvents(id, logEvents(id, 0, 2))])
    const bad = [0, 1, 3].map((from) =>
      database.commit([putRun(sampleRun(1)), putEvents(id, logEvents(id, from, from + 1))]),
    )
    const good = database.commit([putEvents(id, logEvents(id, 2, 4))])
    const twice = database.commit([putEvents(id, logEvents(id, 4, 5)), putEvents(id, logEvents(id, 4, 5))])
    for (const commit of [...bad, twice]) await expect(commit).rejects.toThrow(RangeError)
    await good
    expect(database.runs.get(runId(1))).toBeUndefined()
    expect(await readEvents(events, id)).toEqual(logEvents(id, 0, 4))
    expect(database.state()).toEqual({ is: 'ready' })
  })

  test('chunks of events that do not match their description are refused', async () => {
    const { database } = await open()
    const write = {
      table: 'events',
      runId: runId(1),
      first: 0,
      count: 1,
      lines: Buffer.from('{}\n'),
    } as const
    const wrong = [
      { ...write, lines: Buffer.from('{}') },
      { ...write, lines: Buffer.from('') },
      { ...write, count: 2 },
      { ...write, lines: Buffer.from('{}\n{}\n') },
      { ...write, first: -1 },
      { ...write, first: 0.5 },
      { ...write, runId: '../x' },
    ]
    for (const each of wrong) await expect(database.commit([each])).rejects.toThrow()
    await database.commit([write])
  })

  test('a reader sees one log while events are written, flushed and read', async () => {
    const { database, events } = await open()
    const ids = Array.from({ length: 5 }, (_, n) => runId(n))
    let done = false
    const writing = (async () => {
      const end = Date.now() + 1_500
      for (let n = 0; Date.now() < end; n++) {
        const size = (n * 997) % 9_000
        await Promise.all(
          ids.map((id) => database.commit([putEvents(id, [logEvent(id, n, 'x'.repeat(size))])])),
        )
      }
      done = true
    })()
    while (!done) {
      // Reads of the in-memory store never leave the turn of the event loop by themselves.
      await new Promise((resolve) => setImmediate(resolve))
      for (const id of ids) {
        const next = events.nextIndex(id)
        const after = Math.floor(next / 2)
        const seen = await readEvents(events, id, { after })
        expect(seen.length).toBeGreaterThanOrEqual(next - after - 1)
        expect(seen.map(({ index }) => index)).toEqual(seen.map((_, n) => after + 1 + n))
      }
    }
    await writing
    for (const id of ids) expect(await readEvents(events, id)).toHaveLength(events.nextIndex(id))
  })

  test('after closing, all writes are refused', async () => {
    const store = await open()
    const id = runId(1)
    const pending = store.usage.replace({ projectKey: 'p', sessionId: 's' }, '1')
    await store.close()
    await pending
    const late = [
      () => store.config.replace(undefined, '{}'),
      () => store.config.saveCopy('{}'),
      () => store.database.commit([putEvents(id, logEvents(id, 0, 1))]),
      () => readEvents(store.events, id),
      () => store.events.remove(id),
      () => store.artifacts.write(id, 'a', 0, Buffer.from('x'), true),
      () => store.artifacts.remove(id),
      () => store.usage.replace({ projectKey: 'p', sessionId: 's' }, '2'),
    ]
    for (const write of late) await expect(write()).rejects.toMatchObject({ name: 'StoreClosed' })
    expect(() => store.events.nextIndex(id)).toThrow(/closed/)
    expect(await store.usage.read({ projectKey: 'p', sessionId: 's' })).toBe('1')
  })

  test('an artifact appears with its last part; repeated parts change nothing', async () => {
    const { artifacts } = await open()
    const id = runId(1)
    const parts = ['one', 'two', 'three'].map((text) => Buffer.from(text))
    const write = (part: number) =>
      artifacts.write(id, 'out.txt', part, parts[part] ?? Buffer.of(), part === 2)
    expect(await write(0)).toBe('kept')
    expect(await write(0)).toBe('repeat')
    expect(await write(1)).toBe('kept')
    expect(await write(1)).toBe('repeat')
    expect(await artifacts.find(id, 'out.txt')).toEqual({ is: 'missing' })
    expect(await artifacts.names(id)).toEqual([])
    expect(await write(2)).toBe('kept')
    expect(await write(2)).toBe('repeat')
    const found = await artifacts.find(id, 'out.txt')
    expect(found).toMatchObject({
      is: 'file',
      size: 11,
      contentType: 'text/plain; charset=utf-8',
      download: false,
    })
    expect(await textOf(found)).toBe('onetwothree')
    expect(await artifacts.names(id)).toEqual(['out.txt'])
    await artifacts.write(id, 'second.txt', 0, Buffer.from('2'), true)
    await artifacts.write(id, 'draft.txt', 0, Buffer.from('3'), false)
    for (const name of ['second.txt', 'draft.txt', '../artifacts/out.txt']) await artifacts.remove(id, name)
    expect(await artifacts.names(id)).toEqual(['out.txt'])
    expect(await artifacts.write(id, 'draft.txt', 1, Buffer.from('4'), true)).toHaveProperty('refused')
    await artifacts.remove(id)
    expect(await artifacts.find(id, 'out.txt')).toEqual({ is: 'missing' })
  })

  test('a new attempt replaces an earlier artifact, finished or not', async () => {
    const { artifacts } = await open()
    const id = runId(1)
    const write = (part: number, text: string, final: boolean) =>
      artifacts.write(id, 'a', part, Buffer.from(text), final)
    for (const [part, text] of [
      [0, 'old '],
      [1, 'half'],
    ] as const)
      await write(part, text, false)
    expect(await write(0, 'new ', false)).toBe('kept')
    expect(await write(1, 'whole', true)).toBe('kept')
    expect(await textOf(await artifacts.find(id, 'a'))).toBe('new whole')
    expect(await write(0, 'newest', true)).toBe('kept')
    expect(await write(0, 'newest', true)).toBe('repeat')
    expect(await textOf(await artifacts.find(id, 'a'))).toBe('newest')
  })

  test.each([
    '',
    '.',
    '..',
    'a/b',
    '../a',
    '/etc/passwd',
    'a\\b',
    'a\0b',
    'a\nb',
    '\u007f',
    '\ud800',
    'x'.repeat(256),
  ])('the artifact name %j is refused', async (name) => {
    const { artifacts } = await open()
    expect(await artifacts.find(runId(1), name)).toMatchObject({ is: 'escape' })
    expect(await artifacts.write(runId(1), name, 0, Buffer.from('x'), true)).toMatchObject({
      refused: expect.any(String),
    })
  })

  test('files that could run scripts are downloads', async () => {
    const { artifacts } = await open()
    for (const name of ['a.html', 'a.SVG', 'a.xml', 'a.xhtml', 'noending']) {
      await artifacts.write(runId(1), name, 0, Buffer.from('x'), true)
      expect(await artifacts.find(runId(1), name)).toMatchObject({ is: 'file', download: true })
    }
  })

  test('the artifacts of a run stay within its budget, unfinished and replaced ones included', async () => {
    const { artifacts } = await open()
    const write = (name: string, part: number, bytes: number, final: boolean, run = runId(1)) =>
      artifacts.write(run, name, part, Buffer.alloc(bytes, bytes), final, 100)
    expect(await write('a', 0, 40, true)).toBe('kept')
    expect(await write('b', 0, 40, false)).toBe('kept')
    expect(await write('c', 0, 21, true)).toMatchObject({ refused: expect.stringContaining('100 bytes') })
    expect(await write('c', 0, 20, true)).toBe('kept')
    expect(await write('b', 1, 1, true)).toMatchObject({ refused: expect.any(String) })
    expect(await write('b', 0, 39, false)).toBe('kept')
    expect(await write('b', 0, 38, false)).toBe('kept')
    expect(await write('b', 1, 2, true)).toBe('kept')
    expect(await write('d', 0, 1, true)).toMatchObject({ refused: expect.any(String) })
    expect(await write('d', 0, 100, true, runId(2))).toBe('kept')
    expect(await artifacts.names(runId(1))).toEqual(['a', 'b', 'c'])
    await artifacts.remove(runId(1))
    expect(await write('e', 0, 60, true)).toBe('kept')
    expect(await write('e', 0, 40, true)).toBe('kept')
    expect(await write('f', 0, 60, true)).toBe('kept')
  })

  test('a refused artifact stays refused, also when a part is repeated, until its first part comes again', async () => {
    const { artifacts } = await open()
    const write = (part: number, bytes: number, final = false) =>
      artifacts.write(runId(1), 'a', part, Buffer.alloc(bytes, bytes), final, 100)
    const refused = { refused: expect.stringContaining('100 bytes') }
    expect(await write(0, 10, true)).toBe('kept')
    expect(await write(0, 60)).toBe('kept')
    expect(await write(1, 50)).toMatchObject(refused)
    expect(await write(1, 50)).toMatchObject(refused)
    expect(await write(2, 1, true)).toMatchObject(refused)
    expect(await artifacts.find(runId(1), 'a')).toMatchObject({ is: 'file', size: 10 })
    expect(await write(0, 60)).toBe('kept')
    expect(await write(1, 40, true)).toBe('kept')
    expect(await write(1, 40, true)).toBe('repeat')
    expect(await artifacts.find(runId(1), 'a')).toMatchObject({ is: 'file', size: 100 })
    expect(await write(0, 7)).toBe('kept')
    expect(await write(2, 1)).toMatchObject({ refused: 'part 2 of a came before part 1' })
    expect(await write(1, 1)).toMatchObject({ refused: 'part 2 of a came before part 1' })
  })

  test('an artifact that replaces another one counts in its place', async () => {
    const { artifacts } = await open()
    const id = runId(1)
    const write = (name: string, part: number, bytes: number, final: boolean) =>
      artifacts.write(id, name, part, Buffer.alloc(bytes, bytes), final, 100)
    const refused = { refused: expect.stringContaining('100 bytes') }
    expect(await write('other', 0, 20, true)).toBe('kept')
    for (const bytes of [60, 80, 70]) expect(await write('a', 0, bytes, true)).toBe('kept')
    expect(await write('a', 0, 40, false)).toBe('kept')
    expect(await write('a', 1, 41, false)).toMatchObject(refused)
    // A refused attempt leaves the earlier artifact.
    expect(await artifacts.find(id, 'a')).toMatchObject({ is: 'file', size: 70 })
    expect(await write('a', 0, 40, false)).toBe('kept')
    expect(await write('a', 1, 40, true)).toBe('kept')
    expect(await artifacts.find(id, 'a')).toMatchObject({ is: 'file', size: 80 })
    expect(await write('more', 0, 1, true)).toMatchObject(refused)
    expect(await write('a', 0, 30, true)).toBe('kept')
    expect(await write('more', 0, 50, true)).toBe('kept')
    expect(await write('even more', 0, 1, true)).toMatchObject(refused)
  })

  test('an oversized part or artifact is refused', async () => {
    const { artifacts } = await open()
    expect(await artifacts.write(runId(1), 'a', 0, Buffer.alloc(256 * 1024 + 1), true)).toMatchObject({
      refused: expect.any(String),
    })
    expect(await artifacts.write(runId(1), 'a', -1, Buffer.alloc(1), true)).toMatchObject({
      refused: expect.any(String),
    })
  })

  test('a usage snapshot replaces the earlier one of the same session or subagent', async () => {
    const { usage } = await open()
    const session = { projectKey: 'p', sessionId: 's' }
    await usage.replace(session, '1')
    await usage.replace({ ...session, subagentId: 'a' }, '2')
    await Promise.all(['3', '4'].map((text) => usage.replace(session, text)))
    expect(await usage.read(session)).toBe('4')
    expect(await usage.read({ ...session, subagentId: 'a' })).toBe('2')
    expect(await usage.read({ ...session, subagentId: 'b' })).toBeUndefined()
    expect(await usage.list('p')).toEqual([session, { ...session, subagentId: 'a' }])
    expect(await usage.list('none')).toEqual([])
    for (const bad of ['..', '', 'a/b', '.hidden', 'a.json', 'x'.repeat(300)]) {
      await expect(usage.replace({ projectKey: bad, sessionId: 's' }, '')).rejects.toThrow(TypeError)
    }
  })

  test('the configuration file is replaced only when it holds what was expected', async () => {
    const { config } = await open()
    expect(await config.read()).toBeUndefined()
    expect(await config.replace('{}', '{"a":1}')).toEqual({ is: 'changed', text: undefined })
    expect(await config.replace(undefined, '{"a":1}')).toEqual({ is: 'replaced' })
    expect(await config.replace(undefined, '{"a":2}')).toEqual({ is: 'changed', text: '{"a":1}' })
    expect(await config.read()).toBe('{"a":1}')
    expect(await config.saveCopy('bad')).toMatch(/config\.json\..*rejected$/)
    await expect(config.replace('{"a":1}', ' '.repeat(1024 * 1024 + 1))).rejects.toThrow(RangeError)
  })

  test('a watcher of the configuration file is called once for several changes', async () => {
    // With this clock no time passes between the two writes, however slow the disk is.
    const clock = new ManualClock()
    const { config } = await open(clock)
    let calls = 0
    const stop = config.watch(() => calls++)
    await config.replace(undefined, '1')
    await config.replace('1', '2')
    for (let turns = 0; turns < 5; turns++) await clock.settle()
    await until('the change is noticed', async () => {
      await clock.advance(150)
      return calls > 0
    })
    await clock.advance(150)
    expect(calls).toBe(1)
    stop()
  })
})

async function textOf(found: ArtifactLookup): Promise<string> {
  if (found.is !== 'file') throw new Error(`not a file but ${found.is}`)
  const chunks: Uint8Array[] = []
  for await (const chunk of found.read()) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

const inKeyOrder = <T>(entries: ReadonlyMap<string, T>): [string, T][] =>
  [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
