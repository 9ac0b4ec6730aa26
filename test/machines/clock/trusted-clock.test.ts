/** The trusted clock of a host, beside a database in memory. */
import { expect, test } from '@jest/globals'
import { TrustedClock } from '../../../actors/clock/trusted-clock.ts'
import { DamagedRecord } from '../../../core/damage.ts'
import type { KeyList, KeyValues } from '../../../core/ports/store.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { MemoryControlDatabase } from '../../support/memory-database.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

test('the times of workers that are gone are forgotten, also while nothing contradicts the clock', async () => {
  const clock = new ManualClock()
  const database = new MemoryControlDatabase(clock)
  const log = createRecordingLog()
  const ports = { clock, elapsedMs: clock.monotonic, log, database, requestCommit: () => {} }
  const trustedClock = new TrustedClock(ports)
  trustedClock.start()
  for (let worker = 0; worker < 100; worker++) trustedClock.onWorkerTime(`wk-${worker}`, clock.now())
  await clock.advance(59 * 60_000)
  expect(trustedClock.size).toBe(100)
  await clock.advance(2 * 60_000)
  expect(trustedClock.size).toBe(0)
  expect(log.lines).toEqual([])
  trustedClock.stop()
})

test('a clock whose readings are damaged counts as wrong until a worker on another machine agrees', () => {
  const clock = new ManualClock()
  const { runs } = new MemoryControlDatabase(clock)
  const keyValues: KeyValues & KeyList = {
    get() {
      throw new DamagedRecord({
        id: 'value clock wall',
        where: 'facts',
        message: 'the stored clock is damaged',
      })
    },
    all: () => [],
    keys: () => [],
  }
  const log = createRecordingLog()
  const ports = {
    clock,
    elapsedMs: clock.monotonic,
    log,
    database: { runs, keyValues },
    requestCommit: () => {},
  }
  const trustedClock = new TrustedClock(ports)
  expect(trustedClock.now()).toBeUndefined()
  trustedClock.onWorkerTime('wk-1', clock.now())
  expect(trustedClock.now()).toBe(clock.now())
})
