/**
 * Reads a sandbox's processes from the host's /proc, and signals them.
 *
 * The kernel reuses pids, so a process is identified by its pid together with its start time.
 */
import { readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'

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

// ---- owners --------------------------------------------------------------------------------------------------------

const OWNER_TAG = /\bworker-(\d+)\.(\d+)\.(\d+)\b/

/**
 * Tags sandboxes with their owning worker process. A pid identifies a process only together with its pid namespace and
 * its start time.
 */
export function ownerTag(): string {
  return `worker-${pidNamespace()}.${process.pid}.${identifyProcess(process.pid)?.startTicks}`
}

export function isOwnerGone(text: string): boolean {
  const [, theirNamespace, pid, startTicks] = OWNER_TAG.exec(text) ?? []
  return (
    theirNamespace === pidNamespace() && startTicks !== undefined && isGone({ pid: Number(pid), startTicks })
  )
}

/**
 * Kills processes that a dead worker left behind. `isOurUid` accepts the users under which our workers start
 * sandboxes.
 *
 * bubblewrap's inner process waits for a word from its outer process before it has a death signal. If the worker dies
 * at that moment, the inner process waits forever; no agent runs in it yet. The owner tag in the command line lets a
 * later worker find the process.
 */
export function killOrphans(isOurUid: (uid: number) => boolean): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    if (isOwnerGone(readCommandLine(pid)) && isOurUid(readUid(pid))) sendSignal(Number(pid), 'SIGKILL')
  }
}

function pidNamespace(): string {
  return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')
}

function readCommandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

function readUid(pid: string): number {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? -1
}
