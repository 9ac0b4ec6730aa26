/**
 * Lists the file descriptors that a child process would inherit.
 *
 * LMDB opens its data file without close-on-exec, and Node closes nothing when it spawns. Without care every child of
 * a process with a store, a sandboxed agent included, would have the control database open for writing. Code that
 * spawns a process therefore maps these numbers to an open `/dev/null` in `stdio` (a descriptor number: `'ignore'`
 * has no effect above 2).
 */
import { readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000

/** Descriptors above the three standard ones. Empty on systems without `/proc`. */
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
    // The descriptor was closed after the listing, like the one used for the listing.
    return CLOSE_ON_EXEC
  }
}
