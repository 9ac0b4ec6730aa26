/**
 * Locks of the kernel on open files (`flock`), which end with the process that has the file open, however it ends.
 *
 * Node has no such call. The program `flock` locks the file that it inherits; the lock belongs to the open file, so
 * this process keeps it after the program has ended. Node's descriptors are closed in all other children.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { FLOCK_MS_MAX } from '../protocol/limits.ts'

/** A turn takes milliseconds, unless its process was stopped in it. */
const TURN_TRIES_MAX = 200
const TURN_POLL_MS = 25

/** Locks a file that no other process knows yet. Returns false where this system or file system has no such locks. */
export function lockOpenFile(fd: number): boolean {
  return flock(fd, 'exclusive') === 'done'
}

/**
 * Returns whether a process holds the lock on a file. Throws when there is no such file. Asking takes a shared lock for
 * a moment, so that several processes may ask at once.
 */
export function findKernelLock(path: string): 'held' | 'free' | 'unknown' {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const outcome = flock(fd, 'shared')
    return outcome === 'done' ? 'free' : outcome === 'refused' ? 'held' : 'unknown'
  } finally {
    closeSync(fd)
  }
}

/** Runs `act` while no other process acts in its turn at this folder, as far as the folder can be locked. */
export async function inTurn<T>(folder: string, act: () => Promise<T>): Promise<T> {
  const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    for (let tries = 1; flock(fd, 'exclusive') === 'refused' && tries < TURN_TRIES_MAX; tries++)
      await pause(TURN_POLL_MS)
    return await act()
  } finally {
    closeSync(fd)
  }
}

function flock(fd: number, mode: 'exclusive' | 'shared'): 'done' | 'refused' | 'failed' {
  if (process.platform !== 'linux') return 'failed'
  const { error, status, stderr } = spawnSync('flock', ['-n', mode === 'shared' ? '-s' : '-x', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', fd],
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
    timeout: FLOCK_MS_MAX,
  })
  if (error !== undefined) return 'failed'
  if (status === 0) return 'done'
  // BusyBox ends with 1 for every failure, but is silent only when another process has the lock.
  return status === 1 && stderr.length === 0 ? 'refused' : 'failed'
}
