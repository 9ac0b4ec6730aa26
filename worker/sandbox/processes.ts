/**
 * Reads a sandbox's processes from the host's /proc, and signals them.
 *
 * The kernel reuses pids, so a process is identified by its pid together with its start time.
 */
import { readFileSync, writeFileSync } from 'node:fs'

export interface ProcessIdentity {
  readonly pid: number
  /** Start time in kernel clock ticks since boot. */
  readonly startTicks: string
}

export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid)
  return stat === undefined ? undefined : { pid, startTicks: stat.startTicks }
}

/**
 * Zombies count as gone: a sandbox's init becomes a zombie only after all other processes were reaped, and its own
 * parent may never reap it.
 */
export function isGone({ pid, startTicks }: ProcessIdentity): boolean {
  const stat = readStat(pid)
  return stat === undefined || stat.startTicks !== startTicks || stat.state === 'Z' || stat.state === 'X'
}

/** A stopped process executes nothing, not even the system call it was in. */
export function isStopped(pid: number): boolean {
  return readStat(pid)?.state === 'T'
}

/** Oldest first. */
export function listChildren(pid: number): number[] {
  const text = readText(`/proc/${pid}/task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

/** Tells whether a seccomp filter is active for the process. */
export function hasSeccompFilter(pid: number): boolean {
  return /^Seccomp:\s*2$/m.test(readText(`/proc/${pid}/status`) ?? '')
}

export function sendSignal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // The process has ended meanwhile.
  }
}

/** Makes the kernel kill this process, and all it starts later, first when memory runs out. */
export function preferAsOomVictim(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE_ADJUSTMENT))
  } catch {
    // The process has ended meanwhile.
  }
}

/** On a scale of 1000: well above ordinary services, below processes that volunteer with the maximum. */
const OOM_SCORE_ADJUSTMENT = 500
const STATE_FIELD = 0
const START_TICKS_FIELD = 19

function readStat(pid: number): { state: string; startTicks: string } | undefined {
  const text = readText(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The process name before may contain brackets and spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[STATE_FIELD] ?? '', startTicks: fields[START_TICKS_FIELD] ?? '' }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
