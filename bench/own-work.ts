/**
 * Measures work that the bench does itself: its duration, and the processor time of this process and of the children
 * that end meanwhile. A child that lives on does not count.
 */
import type { Measurement } from './figures.ts'
import { cpuMsWithEnded } from './process-usage.ts'

/** Returns milliseconds, and microseconds of processor time. */
export async function measureOwnWork(act: () => Promise<void>): Promise<Measurement> {
  const [from, before] = [performance.now(), cpuMsWithEnded(process.pid) ?? Number.NaN]
  await act()
  const value = performance.now() - from
  return { value, cpuMicros: ((cpuMsWithEnded(process.pid) ?? Number.NaN) - before) * 1_000 }
}
