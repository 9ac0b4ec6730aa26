/**
 * Finds the file descriptors of this process that a child would inherit, and replaces them with `/dev/null`; and finds
 * out when too few were left to start a child.
 *
 * Node closes no descriptors when it spawns, and some libraries, such as the database, open without close-on-exec.
 * Opening `/dev/null` over such a number hides what was there. bubblewrap also closes every descriptor it reads
 * arguments from; passed as an empty `--args` list, the number itself is closed before the command starts.
 */
import type { ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000
const STANDARD_MAX = 2

/** Lists inheritable descriptors above the three standard ones, in ascending order. */
export function listInheritableFds(): number[] {
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => fd > STANDARD_MAX && isInheritable(fd))
    .sort((a, b) => a - b)
}

/** Builds the `stdio` option of a spawn: the given descriptors first, then `/dev/null` over every inherited one. */
export function coverInheritedFds<T>(
  ownStdio: readonly T[],
  inheritedFds: readonly number[],
  devNull: number,
): (T | number | 'ignore')[] {
  const uncovered = inheritedFds.filter((fd) => fd >= ownStdio.length)
  const length = Math.max(ownStdio.length, ...uncovered.map((fd) => fd + 1))
  return Array.from({ length }, (_, fd) => ownStdio[fd] ?? (uncovered.includes(fd) ? devNull : 'ignore'))
}

/**
 * Returns a child that was just spawned. Throws when no descriptors were left for it: Node then creates no pipes, and
 * emits the error a moment later, when nothing may listen any more.
 */
export function requirePipes(child: ChildProcess): ChildProcess {
  child.on('error', () => {})
  if (child.stdio === undefined) throw new Error('too many files are open')
  return child
}

function isInheritable(fd: number): boolean {
  try {
    const [, flags = ''] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // Closed since the folder was listed, like the descriptor used for listing.
    return false
  }
}
