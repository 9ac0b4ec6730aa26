/**
 * Gives one writer at a time access to a file, among all users of this lock in any process of this machine.
 *
 * Callers in this process wait in a queue. Across processes, the process that creates the lock file holds the lock. A
 * holder needs milliseconds, so a lock file older than 30 s is left from a crash and is removed. Removal first renames
 * the file and compares its inode, so only one of several contenders proceeds.
 */
import { link, lstat, open, rename, rm } from 'node:fs/promises'
import type { Clock } from '../../../core/ports.ts'
import { no, type Result } from '../../../core/result.ts'
import { errorCode } from './pull-file.ts'

type LockClock = Pick<Clock, 'now' | 'after'>

const LOCK_MS_MAX = 30_000
const LOCK_WAIT_MS = 10
const LOCK_TRIES_MAX = 500
const queues = new Map<string, Promise<unknown>>()
let setAsideCount = 0

/** `path`: the lock file. The lock is released even when `work` throws, and the error is passed on. */
export function withFileLock<T>(
  path: string,
  clock: LockClock,
  work: () => Promise<Result<T>>,
): Promise<Result<T>> {
  const before = queues.get(path) ?? Promise.resolve()
  const run = before.then(() => runLocked(path, clock, work))
  const settled = run.then(forget, forget)
  queues.set(path, settled)
  return run

  function forget(): void {
    if (queues.get(path) === settled) queues.delete(path)
  }
}

async function runLocked<T>(
  path: string,
  clock: LockClock,
  work: () => Promise<Result<T>>,
): Promise<Result<T>> {
  for (let tries = 0; tries < LOCK_TRIES_MAX; tries++) {
    const lock = await acquireLock(path)
    if (lock !== undefined) {
      try {
        return await work()
      } finally {
        await releaseLock(path, lock)
      }
    }
    if (!(await removeStaleLock(path, clock)))
      await new Promise<void>((resolve) => clock.after(LOCK_WAIT_MS, resolve))
  }
  return no('unavailable', 'another process keeps changing the pull request; try again')
}

/** Inode of the new lock file; undefined when another process holds the lock. */
async function acquireLock(path: string): Promise<bigint | undefined> {
  try {
    const handle = await open(path, 'wx', 0o600)
    try {
      return (await handle.stat({ bigint: true })).ino
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return undefined
    throw error
  }
}

async function releaseLock(path: string, lock: bigint): Promise<void> {
  const now = await lstat(path, { bigint: true }).catch(() => undefined)
  if (now?.ino === lock) await rm(path, { force: true })
}

/** Answers true when the caller should retry at once. */
async function removeStaleLock(path: string, clock: LockClock): Promise<boolean> {
  const seen = await lstat(path, { bigint: true }).catch(() => undefined)
  if (seen === undefined) return true
  if (clock.now() - Number(seen.mtimeMs) < LOCK_MS_MAX) return false
  const aside = `${path}.${process.pid.toString(36)}-${(setAsideCount++).toString(36)}`
  try {
    await rename(path, aside)
    const moved = await lstat(aside, { bigint: true })
    // Another process removed the stale lock first, and this file is a new lock: put it back.
    if (moved.ino !== seen.ino) await link(aside, path)
  } catch (error) {
    if (!['ENOENT', 'EEXIST'].includes(String(errorCode(error)))) throw error
  } finally {
    await rm(aside, { force: true })
  }
  return true
}
