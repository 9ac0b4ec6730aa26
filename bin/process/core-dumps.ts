/**
 * Keeps the memory of this process, which holds credentials, out of core dumps. Child processes inherit both settings.
 *
 * The filter is written at once by every command: a dump then holds no memory, also where a program receives dumps
 * and the limit does not count. Programs that run for long set the limit as well, so that no dump is made at all.
 * Systems other than Linux have neither; there the service manager sets the limit.
 */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import type { Log } from '../../core/ports/log.ts'

/** A process sets its own limit for core dumps. */
const CORE_LIMIT_MS_MAX = 10_000

const FILTER_FILE = '/proc/self/coredump_filter'
const PRLIMIT = '/usr/bin/prlimit'

/** Makes the kernel leave every part of memory out of a dump. */
export function emptyCoreDumps(): void {
  try {
    writeFileSync(FILTER_FILE, '0')
  } catch {
    // Another system than Linux, or a container whose /proc is read-only: `forbidCoreDumps` reports that.
  }
}

/** Sets the limit for the size of a dump to zero, which nothing can raise again. */
export function forbidCoreDumps(log: Log): void {
  if (process.platform !== 'linux') return
  const args = ['--core=0:0', '--pid', String(process.pid)]
  execFile(PRLIMIT, args, { env: {}, cwd: '/', timeout: CORE_LIMIT_MS_MAX }, (error) => {
    if (error !== null && !hasEmptyCoreDumps())
      log.warn({ err: error }, 'a crash of this process could leave its memory on disk; install util-linux')
  })
}

function hasEmptyCoreDumps(): boolean {
  try {
    return Number.parseInt(readFileSync(FILTER_FILE, 'utf8'), 16) === 0
  } catch {
    return false
  }
}
