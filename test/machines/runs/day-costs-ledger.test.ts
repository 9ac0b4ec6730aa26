/** The ledger of a day's costs, beside a database in memory. */
import { expect, test } from '@jest/globals'
import { DayCostsLedger, METRIC_REPOS_MAX } from '../../../actors/runs/run-report.ts'
import { DamagedRecord } from '../../../core/damage.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'
import { createCountingMeters } from '../../support/test-resources.ts'

const DAY_MS = 24 * 3_600_000

function createLedger() {
  const manualClock = new ManualClock()
  const database = new MemoryControlDatabase(manualClock)
  const clock = { at: new Date(2026, 0, 31, 12).getTime(), damaged: '', now: () => clock.at }
  const keyValues: typeof database.keyValues = {
    ...database.keyValues,
    get(collection, key) {
      if (key === clock.damaged)
        throw new DamagedRecord({
          id: `value ${collection} ${key}`,
          where: 'facts',
          message: 'it is damaged',
        })
      return database.keyValues.get(collection, key)
    },
  }
  const create = () => new DayCostsLedger({ clock, keyValues, requestCommit: () => {}, trustedClock: clock })
  const commit = async (ledger: DayCostsLedger) => {
    const contribution = ledger.contribute()
    const committed = database.commit(contribution?.writes ?? [])
    await manualClock.settle()
    await committed
    contribution?.onCommitted()
  }
  return { database, clock, create, commit }
}

function seriesOf(ledger: DayCostsLedger): ReadonlyMap<string, number> {
  const meters = createCountingMeters()
  ledger.report(meters)
  return meters.counts
}

test('repositories beyond the limit share one series, after a restart too', async () => {
  const { create, commit } = createLedger()
  const ledger = create()
  for (let index = 0; index < METRIC_REPOS_MAX + 50; index++)
    ledger.add({ repo: ledger.labelOf(`repo-${index}`), estimated: true, usd: 1 })
  await commit(ledger)
  for (const reporting of [ledger, create()]) {
    const series = seriesOf(reporting)
    expect(series.size).toBe((METRIC_REPOS_MAX + 1) * 4)
    expect(series.get('run_costs_day_usd today other true')).toBe(50)
    expect(series.get('run_costs_day_usd yesterday other true')).toBe(0)
  }
})

test('only two days stay on disk', async () => {
  const { create, commit, clock, database } = createLedger()
  const ledger = create()
  for (let day = 0; day < 5; day++) {
    ledger.add({ repo: ledger.labelOf('web'), estimated: false, usd: 1 })
    await commit(ledger)
    clock.at += DAY_MS
  }
  expect([...database.keyValues.all('day-costs')].map(([day]) => day)).toEqual(['2026-02-03', '2026-02-04'])
})

test('a day whose stored costs are damaged has no series, and its sum does not begin again', async () => {
  const { create, commit, clock, database } = createLedger()
  const cost = { repo: 'web', estimated: false, usd: 1 }
  const before = create()
  before.add(cost)
  await commit(before)
  clock.damaged = '2026-01-31'
  const after = create()
  after.add({ ...cost, repo: after.labelOf('web') })
  await commit(after)
  expect(database.keyValues.get('day-costs', clock.damaged)).toEqual({ costs: [cost] })
  expect([...seriesOf(after).keys()].filter((name) => name.includes('today'))).toEqual([])
})
