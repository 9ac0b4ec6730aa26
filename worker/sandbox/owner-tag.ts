/**
 * Whose a sandbox is: a name for this process that no other ever has, and what to do with what the dead left behind.
 *
 * bubblewrap's process inside waits for a word from its process outside, early in its life and without a death signal
 * yet. Who dies right then leaves it waiting for ever: it holds no agent and does nothing, but it is there. The name
 * stands in its command line, so that a later worker finds it.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { isGone, markOf, signal } from './processes.ts'

const MARK = /\bworker-(\d+)\.(\d+)\.(\d+)\b/

/** Numbers of processes mean something only within their namespace, and only together with when they started. */
export function ownMark(): string {
  return `worker-${namespace()}.${process.pid}.${markOf(process.pid)?.since}`
}

export function isOwnerGone(text: string): boolean {
  const [, theirs, pid, since] = MARK.exec(text) ?? []
  return theirs === namespace() && since !== undefined && isGone({ pid: Number(pid), since })
}

/** Ends what waits in vain. `isOurs`: users whose processes a worker of ours may have started. */
export function endOrphans(isOurs: (uid: number) => boolean): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    if (isOwnerGone(commandLine(pid)) && isOurs(ownerOf(pid))) signal(Number(pid), 'SIGKILL')
  }
}

function namespace(): string {
  return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

function ownerOf(pid: string): number {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? -1
}
