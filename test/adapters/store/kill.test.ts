/** Kills a writing process at any instant: acknowledged data is on disk, and the store opens again. */
import { expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../bin/process/clock.ts'
import { LmdbControlDatabase } from '../../../store/lmdb/control-database.ts'
import { openStore } from '../../../store/store.ts'
import { runTypeScript } from '../../support/child-process.ts'
import { readEvents } from '../../support/event-batches.ts'
import { drawSeed, Random } from '../../support/random.ts'
import { createRecordingLog, noMeters } from '../../support/recording-log.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { identifyDatabase } from './samples.ts'

const CYCLES = Number(process.env.KILL_CYCLES ?? 8)
const seed = drawSeed()

test(
  `killed ${CYCLES} times while writing (SEED=${seed})`,
  async () => {
    const random = new Random(seed)
    const folder = diskFolder()
    const known = new Map<string, number>()
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = runTypeScript('test/support/store-child.ts', [
        'flood',
        folder,
        `${1 + cycle * 1_000_000}`,
      ])
      await until('the child writes', () => child.lines.length > 1)
      await new Promise((resolve) => setTimeout(resolve, random.below(120)))
      child.process.kill('SIGKILL')
      expect(await child.ended).toBe('SIGKILL')
      recordAcks(known, child.lines)
      expect(await findLost(folder, known)).toEqual([])
    }
    expect(known.size).toBeGreaterThan(32)
  },
  30_000 + CYCLES * 15_000,
)

test(
  `killed ${CYCLES} times while events are written and flushed (SEED=${seed})`,
  async () => {
    const random = new Random(seed + 1)
    const dataDir = diskFolder()
    const known = new Map<string, number>()
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const child = runTypeScript('test/support/store-child.ts', ['events', dataDir, `${cycle}`])
      // Waits for a number of lines instead of a time, so that a slow machine gets as far.
      const lines = 1 + random.below(800)
      await until('the child writes', () => child.lines.length > lines)
      // Often long enough for runs to become quiet and be flushed.
      await new Promise((resolve) => setTimeout(resolve, random.below(900)))
      child.process.kill('SIGKILL')
      expect([await child.ended, ...child.errors]).toEqual(['SIGKILL'])
      for (const line of child.lines) {
        const [what, runId = '', next] = line.split(' ')
        if (what === 'ack') known.set(runId, Number(next))
      }
      expect(await findWrongEvents(dataDir, known)).toEqual([])
    }
    expect(known.size).toBeGreaterThan(100)
  },
  30_000 + CYCLES * 20_000,
)

/** Unacknowledged events may be there if their whole commit is. */
async function findWrongEvents(dataDir: string, known: ReadonlyMap<string, number>): Promise<string[]> {
  const store = await openStore({
    dataDir,
    clock: realClock,
    random: realRandom,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 64 * 1024,
  })
  const wrong: string[] = []
  for (const [runId, next] of known) {
    const events = await readEvents(store.events, runId)
    if (events.some(({ index }, at) => index !== at)) wrong.push(`${runId}: not in order, or not each once`)
    if (events.some(({ type }) => type !== 'log')) wrong.push(`${runId}: something else`)
    if (events.length < next) wrong.push(`${runId}: ${next} acknowledged, ${events.length} found`)
    const n = (store.database.snapshots.get('lease', runId)?.c as { n: number } | undefined)?.n
    if (events.length !== n || store.events.nextIndex(runId) !== n) wrong.push(`${runId}: half a commit`)
  }
  await store.close()
  return wrong
}

function recordAcks(known: Map<string, number>, lines: readonly string[]): void {
  // Each process continues with higher numbers, so a later write never has a smaller value.
  for (const line of lines) {
    const [what, kind, caller, n] = line.split(' ')
    if (what === 'ack') known.set(`${kind} ${caller}`, Number(n))
  }
}

/** An unacknowledged later write may be there; an older value may not. Both halves of a commit agree. */
async function findLost(folder: string, known: ReadonlyMap<string, number>): Promise<string[]> {
  const database = new LmdbControlDatabase({
    folder,
    clock: realClock,
    log: createRecordingLog(),
    meters: noMeters,
    emergencySpaceBytes: 0,
    identifyDatabase,
  })
  const lacking: string[] = []
  const countOf = (kind: string, key: number) =>
    (database.snapshots.get(kind, `k-${key}`)?.c as { n: number } | undefined)?.n
  for (const [key, n] of known) {
    const [kind = '', caller] = key.split(' ')
    const found = countOf(kind, Number(caller))
    if (found === undefined || found < n) lacking.push(`${key}: ${n} was acknowledged, ${found} found`)
    if (found !== countOf(kind, Number(caller) + 1000)) lacking.push(`${key}: half a commit`)
  }
  await database.close()
  return lacking
}
