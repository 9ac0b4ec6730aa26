/**
 * Whose a sandbox is: a name for this process that no other ever has, and what to do with what the dead left behind.
 *
 * bubblewrap's process inside waits for a word from its process outside, early in its life and without a death signal
 * yet. Who dies right then leaves it waiting for ever: it holds no agent and does nothing, but it is there. The name
 * stands in its command line, so that a later worker finds it.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { identifyProcess, isGone, sendSignal } from './processes.ts'

const OWNER_TAG = /\bworker-(\d+)\.(\d+)\.(\d+)\b/

/** Numbers of processes mean something only within their namespace, and only together with when they started. */
export function ownerTag(): string {
  return `worker-${pidNamespace()}.${process.pid}.${identifyProcess(process.pid)?.startTicks}`
}

export function isOwnerGone(text: string): boolean {
  const [, theirNamespace, pid, startTicks] = OWNER_TAG.exec(text) ?? []
  return (
    theirNamespace === pidNamespace() && startTicks !== undefined && isGone({ pid: Number(pid), startTicks })
  )
}

/** Ends what waits in vain. `isOurs`: users whose processes a worker of ours may have started. */
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
