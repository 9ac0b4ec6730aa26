/**
 * Measures the CPU time that a piece of work costs this process.
 *
 * A wall clock would also count the work of other processes, which on a busy machine is most of the elapsed time.
 */
import { readFileSync } from 'node:fs'

/** Returns the CPU time of `work` in milliseconds. */
export function measureCpuMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  return cpuMsSince(before)
}

/** Measures asynchronous work; other work of this process in the same period counts too. */
export async function measureAsyncCpuMs(run: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await run()
  return cpuMsSince(before)
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

/** Measures the CPU time of each turn of the event loop. Returns a function that ends this, and returns the longest. */
export function startTurnMeter(): () => number {
  let longestMs = 0
  let before = threadCpuMs()
  let isRunning = true
  const measure = () => {
    const present = threadCpuMs()
    longestMs = Math.max(longestMs, present - before)
    before = present
    if (isRunning) setImmediate(measure)
  }
  setImmediate(measure)
  return () => {
    isRunning = false
    return longestMs
  }
}

/** Of this thread alone: the collector and the database work beside it without holding it up. */
const threadCpuMs = (): number =>
  Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ', 1)[0]) / 1_000_000
