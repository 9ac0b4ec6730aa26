/**
 * Descriptors of this process that a sandbox would inherit, and how they are taken from it.
 *
 * Node closes nothing when it spawns, and not everybody opens with close-on-exec: the database does not. An open
 * `/dev/null` laid over such a number takes what was there away. bubblewrap closes what it was told to read its
 * arguments from, so handed to it as one more list, an empty one, the number itself is gone before the command starts.
 */
import { readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000
const STANDARD_MAX = 2

/** Above the three standard ones. */
export function listInheritableFds(): number[] {
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => fd > STANDARD_MAX && isInheritable(fd))
    .sort((a, b) => a - b)
}

/** What `stdio` has to be, so that after our own descriptors nothing but `/dev/null` is left. */
export function coverInheritedFds<T>(
  ownStdio: readonly T[],
  inheritedFds: readonly number[],
  devNull: number,
): (T | number | 'ignore')[] {
  const uncovered = inheritedFds.filter((fd) => fd >= ownStdio.length)
  const length = Math.max(ownStdio.length, ...uncovered.map((fd) => fd + 1))
  return Array.from({ length }, (_, fd) => ownStdio[fd] ?? (uncovered.includes(fd) ? devNull : 'ignore'))
}

function isInheritable(fd: number): boolean {
  try {
    const [, flags = ''] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    // Closed since the folder was read, like the one it was read through.
    return false
  }
}
