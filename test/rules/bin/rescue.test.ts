/** Tests of what a stopping process reports about the copy that saves a lost database. */
import { expect, test } from '@jest/globals'
import {
  RESCUE_BYTES_PER_SECOND_MIN,
  RESCUE_MS_MIN,
  watchRescue,
} from '../../../bin/process/store-exit-code.ts'
import type { StoreState } from '../../../core/ports/store.ts'

const lost = (ended: Promise<string>, bytes = 0): StoreState => ({
  is: 'broken',
  reason: 'the file was removed',
  rescue: { bytes, ended },
})

test.each<StoreState>([
  { is: 'ready' },
  { is: 'degraded', reason: 'the disk is full' },
  { is: 'broken', reason: 'the file was truncated' },
])('a store that is $is without a copy changes neither the reason of a stop nor its time', (state) => {
  const report = watchRescue(state)
  expect(report.describe('why')).toBe('why')
  expect(report.msMax).toBe(0)
})

test('a copy that goes on is reported as not saved, and one that ended with its own words', async () => {
  let resolve = (_outcome: string) => {}
  const promise = new Promise<string>((done) => {
    resolve = done
  })
  const report = watchRescue(lost(promise))
  expect(report.describe('why')).toBe('why; its content could not be saved in time')
  resolve('its content is saved in /rescued')
  await promise
  expect(report.describe('why')).toBe('why; its content is saved in /rescued')
})

test('the time for a copy grows with its size', () => {
  const never = new Promise<string>(() => {})
  expect(watchRescue(lost(never)).msMax).toBe(RESCUE_MS_MIN)
  expect(watchRescue(lost(never, 100 * RESCUE_BYTES_PER_SECOND_MIN)).msMax).toBe(RESCUE_MS_MIN + 100_000)
})
