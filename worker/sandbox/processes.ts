/**
 * What /proc knows of a sandbox's processes, seen from outside.
 *
 * Numbers are used again: a process is meant by its number and the instant it was started.
 */
import { readFileSync, writeFileSync } from 'node:fs'

export interface ProcessMark {
  readonly pid: number
  /** In the kernel's ticks since boot. */
  readonly since: string
}

export function markOf(pid: number): ProcessMark | undefined {
  const stat = statOf(pid)
  return stat === undefined ? undefined : { pid, since: stat.since }
}

/**
 * One that ended and waits to be buried counts as gone: the first process of a sandbox gets there only when all others
 * are buried, and who buries it may be somebody who never does.
 */
export function isGone({ pid, since }: ProcessMark): boolean {
  const stat = statOf(pid)
  return stat === undefined || stat.since !== since || stat.state === 'Z' || stat.state === 'X'
}

/** It was told to, and does nothing any more, not even what it had begun. */
export function isStopped(pid: number): boolean {
  return statOf(pid)?.state === 'T'
}

/** The oldest first. */
export function childrenOf(pid: number): number[] {
  const text = textOf(`/proc/${pid}/task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

/** Whether a system call filter is in force for it. */
export function isFiltered(pid: number): boolean {
  return /^Seccomp:\s*2$/m.test(textOf(`/proc/${pid}/status`) ?? '')
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended by itself.
  }
}

/** When memory gets scarce: what it starts from then on, too. */
export function goesFirst(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE))
  } catch {
    // It ended by itself.
  }
}

/** Of a thousand: well above whoever serves people, below what asks for it. */
const OOM_SCORE = 500
const STATE = 0
const STARTED = 19

function statOf(pid: number): { state: string; since: string } | undefined {
  const text = textOf(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name before may hold anything, brackets and spaces too.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[STATE] ?? '', since: fields[STARTED] ?? '' }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
