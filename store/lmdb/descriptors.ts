/**
 * File descriptors of this process that a child would inherit.
 *
 * LMDB opens its data file without close-on-exec, and Node closes nothing when it spawns: without care every child
 * of a process with a store, a sandboxed agent too, holds the control database open for writing. Whoever spawns lays
 * an open `/dev/null` over these numbers in `stdio` (a number: `'ignore'` does nothing above 2).
 */
import { readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000

/** Above the three standard ones. Empty where the system does not tell. */
export function inheritableDescriptors(): number[] {
  return open()
    .filter((fd) => fd > 2 && (flagsOf(fd) & CLOSE_ON_EXEC) === 0)
    .sort((a, b) => a - b)
}

function open(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch {
    return []
  }
}

function flagsOf(fd: number): number {
  try {
    const [, flags = ''] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? []
    return Number.parseInt(flags, 8)
  } catch {
    // Closed since the folder was read, like the one it was read through.
    return CLOSE_ON_EXEC
  }
}
