/**
 * Tags sandboxes with their owning worker process, and kills those that a dead worker left behind.
 *
 * bubblewrap's inner process waits for a word from its outer process before it has a death signal. If the worker dies
 * at that moment, the inner process waits forever; no agent runs in it yet. The owner tag in the command line
 * lets a later worker find the process.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { identifyProcess, isGone, sendSignal } from './processes.ts'

const OWNER_TAG = /\bworker-(\d+)\.(\d+)\.(\d+)\b/

/** A pid identifies a process only together with its pid namespace and its start time. */
export function ownerTag(): string {
  return `worker-${pidNamespace()}.${process.pid}.${identifyProcess(process.pid)?.startTicks}`
}

export function isOwnerGone(text: string): boolean {
  const [, theirNamespace, pid, startTicks] = OWNER_TAG.exec(text) ?? []
  return (
    theirNamespace === pidNamespace() && startTicks !== undefined && isGone({ pid: Number(pid), startTicks })
  )
}

/** Kills waiting processes of dead workers. `isOurUid` accepts the users under which our workers start sandboxes. */
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
