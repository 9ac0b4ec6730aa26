/**
 * What /proc knows of a sandbox's processes, seen from outside.
 *
 * Numbers are used again: a process is meant by its number and the instant it was started.
 */
import { readFileSync, writeFileSync } from 'node:fs'

export interface ProcessIdentity {
  readonly pid: number
  /** In the kernel's ticks since boot. */
  readonly startTicks: string
}

export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid)
  return stat === undefined ? undefined : { pid, startTicks: stat.startTicks }
}

/**
 * One that ended and waits to be buried counts as gone: the first process of a sandbox gets there only when all others
 * are buried, and who buries it may be somebody who never does.
 */
export function isGone({ pid, startTicks }: ProcessIdentity): boolean {
  const stat = readStat(pid)
  return stat === undefined || stat.startTicks !== startTicks || stat.state === 'Z' || stat.state === 'X'
}

/** It was told to, and does nothing any more, not even what it had begun. */
export function isStopped(pid: number): boolean {
  return readStat(pid)?.state === 'T'
}

/** The oldest first. */
export function listChildren(pid: number): number[] {
  const text = readText(`/proc/${pid}/task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

/** Whether a system call filter is in force for it. */
export function hasSeccompFilter(pid: number): boolean {
  return /^Seccomp:\s*2$/m.test(readText(`/proc/${pid}/status`) ?? '')
}

export function sendSignal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended by itself.
  }
}

/** When memory gets scarce: what it starts from then on, too. */
export function preferAsOomVictim(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE_ADJUSTMENT))
  } catch {
    // It ended by itself.
  }
}

/** Of a thousand: well above whoever serves people, below what asks for it. */
const OOM_SCORE_ADJUSTMENT = 500
const STATE_FIELD = 0
const START_TICKS_FIELD = 19

function readStat(pid: number): { state: string; startTicks: string } | undefined {
  const text = readText(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name before may hold anything, brackets and spaces too.
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
