/** The clock that counts the time in which the machine slept. */
import { expect, test } from '@jest/globals'
import { createSleepCountingClock, realClock } from '../../../bin/process/clock.ts'
import { ManualClock } from '../../support/manual-clock.ts'

function machine() {
  const base = new ManualClock()
  let asleep = 0
  // Systems report the uptime in hundredths of a second.
  const uptime = () => Math.floor((base.monotonic() + asleep + 12_345.6) / 10) * 10
  const clock = createSleepCountingClock(base, uptime)
  return { base, clock, sleep: (ms: number) => (asleep += ms) }
}

test('counts the time of a sleep soon after it', async () => {
  const { base, clock, sleep } = machine()
  await base.advance(5_000)
  expect(clock.monotonic()).toBe(5_000)
  sleep(600_000)
  await base.advance(1_000)
  expect(clock.monotonic()).toBeGreaterThanOrEqual(605_900)
  expect(clock.monotonic()).toBeLessThanOrEqual(606_100)
})

test('counts the time of a sleep at once where the wall clock shows it', async () => {
  const { base, clock, sleep } = machine()
  await base.advance(5_300)
  const before = clock.monotonic()
  base.jumpWallClock(600_000)
  sleep(600_000)
  expect(clock.monotonic() - before).toBeGreaterThanOrEqual(599_900)
  expect(clock.monotonic() - before).toBeLessThanOrEqual(600_100)
})

test('a wall clock that is set forward or back passes no time', async () => {
  const { base, clock } = machine()
  await base.advance(5_300)
  for (const jump of [3_600_000, -7_200_000]) {
    base.jumpWallClock(jump)
    expect(clock.monotonic()).toBe(base.monotonic())
  }
})

test('never goes back, and ignores rounding', async () => {
  const { base, clock } = machine()
  let last = 0
  for (let n = 0; n < 500; n++) {
    await base.advance(137)
    expect(clock.monotonic()).toBeGreaterThanOrEqual(last)
    last = clock.monotonic()
  }
  expect(last).toBe(500 * 137)
})

test('a timer fires when its time is over, asleep or awake', async () => {
  const { base, clock, sleep } = machine()
  const fired: string[] = []
  clock.after(10_000, () => fired.push('awake'))
  clock.after(300_000, () => fired.push('asleep'))
  clock.after(400_000, () => fired.push('later'))
  const cancel = clock.after(20_000, () => fired.push('never'))
  await base.advance(9_999)
  expect(fired).toEqual([])
  await base.advance(1)
  expect(fired).toEqual(['awake'])
  cancel()
  sleep(300_000)
  await base.advance(2_100)
  expect(fired).toEqual(['awake', 'asleep'])
  await base.advance(200_000)
  expect(fired).toEqual(['awake', 'asleep', 'later'])
  expect(base.timers).toBe(0)
})

test('runs on this machine like any other clock', async () => {
  const clock = createSleepCountingClock(realClock)
  const began = clock.monotonic()
  await new Promise<void>((resolve) => clock.after(30, resolve))
  expect(clock.monotonic() - began).toBeGreaterThanOrEqual(29)
  expect(clock.monotonic() - began).toBeLessThan(50_000)
})
