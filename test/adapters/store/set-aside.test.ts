/** Tests that what is intact of a damaged database goes on, and that all else is named and never read as absent. */
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import { readOr } from '../../../core/damage.ts'
import type { Store } from '../../../core/ports/store.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { StoreUnreadable } from '../../../store/errors.ts'
import { setAsideDamage } from '../../../store/set-aside.ts'
import { readEvents } from '../../support/event-batches.ts'
import { diskFolder } from '../../support/temp-folder.ts'
import {
  changeRow,
  createWholeDirectory,
  flipBit,
  garblePage,
  longLog,
  openAt,
  pagesOf,
  smallLog,
  WHOLE_RUNS,
} from './damage.ts'
import { runId, sampleRun } from './samples.ts'

let whole: string
beforeAll(async () => {
  whole = await createWholeDirectory()
})

async function setAside(damage: (dataDir: string) => Promise<void> | void) {
  const dataDir = diskFolder()
  cpSync(whole, dataDir, { recursive: true })
  await damage(dataDir)
  return { dataDir, moved: await setAsideDamage(dataDir, realClock) }
}

const isLoss = (event: RunEvent): boolean => event.type === 'log' && event.stream === 'system'

async function expectNothingLess(store: Store, runsMissing: number): Promise<void> {
  const { runs } = store.database
  const read = Array.from({ length: WHOLE_RUNS }, (_, n) =>
    readOr<Run | null | 'named'>(
      () => runs.get(runId(n + 1)) ?? null,
      () => 'named',
    ),
  )
  for (const [n, run] of read.entries())
    if (run !== 'named') expect(run).toEqual(sampleRun(n + 1, 'completed'))
  expect(read.filter((run) => run === 'named').length).toBe(runsMissing)
  expect(runs.list({}).length).toBe(WHOLE_RUNS - runsMissing)
  for (const log of [smallLog, longLog]) {
    const found = await readEvents(store.events, log[0]?.runId ?? '')
    const rest = found.filter((event) => !isLoss(event))
    if (rest.length < log.length) expect(found.some(isLoss)).toBe(true)
    for (const event of rest) expect(event).toEqual(log[event.index])
  }
}

test('after any garbled page the rest goes on, and a start names what was set aside', async () => {
  const outcomes = { whole: 0, refused: 0, mended: 0, runsLost: 0 }
  for (const page of pagesOf(whole)) {
    const result = await setAside((dataDir) => garblePage(dataDir, page)).catch((error: unknown) => error)
    if (result instanceof StoreUnreadable) {
      outcomes.refused++
      continue
    }
    const { dataDir, moved } = result as Awaited<ReturnType<typeof setAside>>
    if (moved === undefined) {
      outcomes.whole++
      continue
    }
    outcomes.mended++
    const lost = JSON.parse(readFileSync(join(moved.folder, 'lost.json'), 'utf8')).lost as {
      message: string
    }[]
    const runsLost = lost.filter(({ message }) => message.startsWith('the record of run ')).length
    outcomes.runsLost += runsLost
    const store = await openAt(dataDir)
    expect(store.database.damage.all().map(({ id }) => id)).toContainEqual(
      expect.stringMatching(/^set aside /),
    )
    await expectNothingLess(store, runsLost)
    await store.close()
  }
  // The list of tables and the shapes of records have a page each.
  expect(outcomes.refused).toBeLessThanOrEqual(3)
  expect(outcomes.mended).toBeGreaterThan(10)
  expect(outcomes.runsLost).toBeGreaterThan(WHOLE_RUNS / 2)
})

test('a run with a flipped bit is set aside, and its id stays known', async () => {
  const { dataDir, moved } = await setAside((folder) => changeRow(folder, 'runs', runId(3), flipBit))
  expect(readdirSync(dataDir)).not.toContain('state.mended')
  expect(existsSync(join(moved?.folder ?? '', 'data.mdb'))).toBe(true)
  const store = await openAt(dataDir)
  await expectNothingLess(store, 1)
  await store.close()
})

test('of a whole database nothing is set aside', async () => {
  const { dataDir, moved } = await setAside(() => {})
  expect(moved).toBeUndefined()
  expect(readdirSync(dataDir)).not.toContain('state.mended.part')
})
