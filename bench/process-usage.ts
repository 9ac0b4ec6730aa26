/**
 * Reads the processor time and the memory of a process from /proc.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Linux counts the processor time of a process in hundredths of a second on every machine. */
export const TICK_MS = 10
/** Places in `/proc/PID/stat`, counted after the process's name. */
const USER_TIME_FIELD = 11
const CHILDREN_USER_TIME_FIELD = 13
const IDLE_CHECK_MS = 150
const IDLE_CHECKS = 2
const IDLE_WAIT_MS_MAX = 5_000
const REST_CHECK_MS = 100
/** Together longer than a host waits for quiet before it moves events into files. */
const REST_CHECKS = 12
/** Enough for a server that postpones nothing to a timer. */
export const REST_CHECKS_WITHOUT_TIMERS = 3
const REST_WAIT_MS_MAX = 300_000
/** The share of a core that a host at rest may use: its own timers, and the heartbeats of a thousand idle workers. */
const REST_SHARE_MAX = 0.03

/**
 * Processor time of a process so far, with all its threads; undefined on systems without /proc.
 *
 * The scheduler counts the nanoseconds of each living thread. Only the total, in ticks, includes ended threads, so
 * the larger of both counts.
 */
export function cpuMs(pid: number): number | undefined {
  try {
    return Math.max(readTicksMs(pid), readThreadsMs(pid))
  } catch {
    return undefined
  }
}

/** Processor time of a process, of all its living descendants, and of those that have ended. */
export function cpuMsOfTree(pid: number): number | undefined {
  const own = cpuMsWithEnded(pid)
  if (own === undefined) return undefined
  return childrenOf(pid).reduce((sum, child) => sum + (cpuMsOfTree(child) ?? 0), own)
}

/** Processor time of several processes together, without their children. */
export function sumOfCpuMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (cpuMs(pid) ?? Number.NaN), 0)
}

/** Processor time of several processes with their descendants, together. */
export function cpuMsOfTrees(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (cpuMsOfTree(pid) ?? Number.NaN), 0)
}

/** Processor time of a process and of its descendants that have ended, without those that live. */
export function cpuMsWithEnded(pid: number): number | undefined {
  const own = cpuMs(pid)
  return own === undefined ? undefined : own + endedChildrenMs(pid)
}

/** Processor time of the descendants that have ended, each counted by its parent in whole ticks. */
export function endedChildrenMs(pid: number): number {
  try {
    return readStatMs(pid, CHILDREN_USER_TIME_FIELD)
  } catch {
    return Number.NaN
  }
}

const readTicksMs = (pid: number): number => readStatMs(pid, USER_TIME_FIELD)

/** Reads user time, and the system time in the field after. */
function readStatMs(pid: number, userTimeField: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[userTimeField]) + Number(fields[userTimeField + 1])) * TICK_MS
}

function readThreadsMs(pid: number): number {
  return sumSchedstat(readOfThreads(pid, 'schedstat'))
}

/** Milliseconds on a processor in the schedstat files of threads; a kernel without them gives 0. */
export function sumSchedstat(texts: readonly string[]): number {
  const nanoseconds = texts.map((text) => Number(/^\d+/.exec(text)?.[0] ?? 0))
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6
}

/** Returns nothing for a process that has just ended. */
export function childrenOf(pid: number): number[] {
  try {
    return readOfThreads(pid, 'children').flatMap((text) =>
      text.trim().split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

function readOfThreads(pid: number, file: 'schedstat' | 'children'): string[] {
  const folder = `/proc/${pid}/task`
  return readdirSync(folder).flatMap((thread) => {
    try {
      return [readFileSync(`${folder}/${thread}/${file}`, 'utf8')]
    } catch {
      // The thread has ended meanwhile, or the kernel has no such file.
      return []
    }
  })
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

export interface Rest {
  /** The instant from which the process has used almost no processor time. */
  readonly at: number
  /** The processor time that the process and its children had used until then, in milliseconds. */
  readonly cpu: number
}

/** Waits until a process has nothing left to do: by default past work that a timer of the host begins. */
export async function waitForRest(pid: number, checks = REST_CHECKS): Promise<Rest> {
  const end = performance.now() + REST_WAIT_MS_MAX
  let rest = { at: performance.now(), cpu: cpuMsOfTree(pid) ?? Number.NaN }
  for (let quiet = 0; quiet < checks; quiet++) {
    await sleep(REST_CHECK_MS)
    const cpu = cpuMsOfTree(pid) ?? Number.NaN
    const allowedMs = Math.max(TICK_MS, REST_SHARE_MAX * (performance.now() - rest.at))
    if (cpu - rest.cpu <= allowedMs) continue
    if (performance.now() > end) throw new Error(`process ${pid} did not rest within ${REST_WAIT_MS_MAX} ms`)
    rest = { at: performance.now(), cpu }
    quiet = -1
  }
  return rest
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
