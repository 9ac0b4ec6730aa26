/**
 * Flips random bits of a database and of an event file, and expects that nothing is served as less without a name.
 *
 * Each seed is a directory of its own, and stands in the title of its test; `SEED=N` begins with that one.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import { realRandom } from '../../../bin/process/clock.ts'
import { DamagedRecord, readOr } from '../../../core/damage.ts'
import type { Store } from '../../../core/ports/store.ts'
import type { Run } from '../../../protocol/run.ts'
import { checkDataDir } from '../../../store/check-data-dir.ts'
import { DatabaseLost, StoreTooNew, StoreUnreadable } from '../../../store/errors.ts'
import { readEvents } from '../../support/event-batches.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import {
  createWholeDirectory,
  garblePage,
  longLog,
  openAt,
  PAGE_BYTES,
  pagesOf,
  smallLog,
  WHOLE_RUNS,
} from './damage.ts'
import { runId, sampleRun, sampleSnapshot } from './samples.ts'

const FIRST_SEED = drawSeed()
const SEEDS = Array.from({ length: 40 }, (_, n) => FIRST_SEED + n)

let whole: string
/** The two first pages, and those that hold something: flips in free ones would change nothing. */
const pages = [0, 1]
beforeAll(async () => {
  whole = await createWholeDirectory()
  const dataDir = diskFolder()
  for (const page of pagesOf(whole)) {
    cpSync(whole, dataDir, { recursive: true })
    garblePage(dataDir, page)
    if ((await checkDataDir(dataDir, { random: realRandom })).damage.length > 0) pages.push(page)
  }
})

function flip(path: string, random: Random, from = 0, bytesMax = Number.POSITIVE_INFINITY): void {
  const bytes = readFileSync(path)
  const at = from + random.below(Math.min(bytes.length, bytesMax))
  bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
  writeFileSync(path, bytes)
}

function damagedCopy(seed: number): string {
  const dataDir = diskFolder()
  cpSync(whole, dataDir, { recursive: true })
  const random = new Random(seed)
  const flips = 1 + random.below(3)
  for (let n = 0; n < flips; n++) {
    if (random.chance(1 / 8)) flip(join(dataDir, 'runs', runId(2), 'events.jsonl'), random)
    else flip(join(dataDir, 'state', 'data.mdb'), random, random.pick(pages) * PAGE_BYTES, PAGE_BYTES)
  }
  return dataDir
}

/** Returns what differs from what was stored. */
async function findLess({ database, events }: Store): Promise<string[]> {
  const less: string[] = []
  const same = (what: string, read: () => unknown, expected: unknown) => {
    const found = readOr<unknown>(read, () => 'damaged')
    if (JSON.stringify(found) !== JSON.stringify(expected)) less.push(what)
  }
  const all: Run[] = []
  for (let n = WHOLE_RUNS; n > 0; n--) {
    all.push(sampleRun(n, 'completed'))
    same(`run ${n}`, () => database.runs.get(runId(n)), sampleRun(n, 'completed'))
  }
  same('runs', () => database.runs.list({}), all)
  same('completed runs', () => database.runs.list({ status: ['completed'] }), all)
  same('leases', () => [...database.snapshots.all('lease')], [['ls-1', sampleSnapshot(1)]])
  same('marks', () => [...database.keyValues.all('mark')], [['ls-1', { upTo: 4 }]])
  same('tickets', () => [...database.keyValues.all('ticket')], [['t-1', { state: 'Todo' }]])
  for (const log of [smallLog, longLog]) {
    const found = await readEvents(events, log[0]?.runId ?? '')
    same('log', () => found, log)
  }
  return less
}

test.each(SEEDS)('with seed %i nothing is less without a name', async (seed) => {
  const dataDir = damagedCopy(seed)
  const { damage } = await checkDataDir(dataDir, { random: realRandom }).catch((error: unknown) => {
    if (error instanceof StoreTooNew) return { damage: [error] }
    throw error
  })
  const opened = await openAt(dataDir).catch((error: unknown) => error)
  if (opened instanceof Error) {
    const isNamed = [StoreUnreadable, DatabaseLost, StoreTooNew, DamagedRecord].some(
      (each) => opened instanceof each,
    )
    expect([isNamed, damage.length > 0, opened.message]).toEqual([true, true, expect.any(String)])
    return
  }
  const store = opened as Store
  const less = await findLess(store)
  const named = store.database.damage.all().length
  await store.close()
  if (less.length > 0)
    expect({ less, named, checked: damage.length }).toEqual({
      less,
      named: expect.any(Number),
      checked: expect.any(Number),
    })
  expect(less.length === 0 || (named > 0 && damage.length > 0)).toBe(true)
})
