/** The bench reads the processor time of a process finer than a clock tick, with its threads and children. */
import { spawn } from 'node:child_process'
import { expect, test } from '@jest/globals'
import {
  childrenOf,
  cpuMs,
  cpuMsOfTree,
  endedChildrenMs,
  sumSchedstat,
  TICK_MS,
} from '../../../bench/process-usage.ts'

test('schedstat files add up to milliseconds, and an unreadable one counts nothing', () => {
  expect(sumSchedstat(['2500000 17 3\n', '500000 0 1\n', ''])).toBe(3)
  expect(sumSchedstat([])).toBe(0)
})

test('a process that works uses processor time, and its tree includes its children, ended ones too', async () => {
  const script =
    "const end = Date.now() + 60; while (Date.now() < end); console.log('done'); setInterval(() => {}, 1e6)"
  const before = cpuMsOfTree(process.pid) ?? Number.NaN
  const child = spawn(process.execPath, ['--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const spent = cpuMs(child.pid ?? 0) ?? Number.NaN
  expect(spent).toBeGreaterThan(20)
  expect((cpuMsOfTree(process.pid) ?? Number.NaN) - before).toBeGreaterThanOrEqual(spent)
  child.kill()
  await new Promise((resolve) => child.once('close', resolve))
  // An ended child is counted in whole ticks, in user time and in system time.
  expect(endedChildrenMs(process.pid)).toBeGreaterThan(spent - 2 * TICK_MS)
  expect((cpuMsOfTree(process.pid) ?? Number.NaN) - before).toBeGreaterThan(spent - 2 * TICK_MS)
})

test('a process that does not exist has no processor time and no children', () => {
  expect([cpuMs(2 ** 30), cpuMsOfTree(2 ** 30), endedChildrenMs(2 ** 30)]).toEqual([
    undefined,
    undefined,
    Number.NaN,
  ])
  expect(childrenOf(2 ** 30)).toEqual([])
})
