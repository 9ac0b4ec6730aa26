/**
 * Reads the processor time and the memory of a process from /proc.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Linux counts processor time in hundredths of a second on every machine. */
export const TICK_MS = 10
const IDLE_CHECK_MS = 150
const IDLE_CHECKS = 2
const IDLE_WAIT_MS_MAX = 5_000

/** Processor time of a process so far, with all its threads; undefined on systems without /proc. */
export function cpuMs(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return undefined
  }
}

/**
 * Waits until a process has used almost no processor time for a moment, so its postponed work is done. Returns its
 * processor time until then.
 */
export async function waitUntilIdle(pid: number): Promise<number> {
  const until = performance.now() + IDLE_WAIT_MS_MAX
  let before = cpuMs(pid) ?? 0
  for (let quiet = 0; quiet < IDLE_CHECKS && performance.now() < until; ) {
    await sleep(IDLE_CHECK_MS)
    const now = cpuMs(pid) ?? 0
    quiet = now - before <= TICK_MS ? quiet + 1 : 0
    before = now
  }
  return before
}

export interface ResidentMemory {
  readonly mib: number
  /** The process's own memory within `mib`; the rest is mapped files: the program, and pages of a database. */
  readonly ownMib: number
}

export function residentMemory(pid: number): ResidentMemory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mib = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024
  return { mib: mib('VmRSS'), ownMib: mib('RssAnon') }
}

/** Starts a new measurement of the process's peak memory. */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

/** Peak resident memory since `resetPeak`. */
export function peakMib(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}
