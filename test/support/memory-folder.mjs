/**
 * Creates the temporary files of a test run in memory where the machine has room, because hundreds of databases and git
 * repositories wait for the disk most of their time.
 *
 * A folder that the person chose by TMPDIR stays. The folder is deleted when the run ends.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { freemem } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'
const ROOM_BYTES_MIN = 2 * 1024 ** 3
/** The tests' own processes need the rest. */
const FREE_BYTES_MIN = 2 * ROOM_BYTES_MIN

/** Sets TMPDIR for this process and the processes that it starts. */
export function useMemoryFolder() {
  if (process.env.TMPDIR !== undefined || !hasRoom()) return
  // Some tests need a short path: sockets have a limit, and a terminal of 60 columns folds no path.
  const folder = mkdtempSync(join(SHARED_MEMORY, 's-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  // Users of sandboxes must pass through it, as through /tmp.
  chmodSync(folder, 0o1777)
  if (mayExecuteIn(folder)) process.env.TMPDIR = folder
}

function hasRoom() {
  try {
    const { bavail, bsize } = statfsSync(SHARED_MEMORY)
    return bavail * bsize >= ROOM_BYTES_MIN && freemem() >= FREE_BYTES_MIN
  } catch {
    return false
  }
}

/** Containers often mount shared memory without the right to execute programs. */
function mayExecuteIn(folder) {
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
  const { status } = spawnSync(program)
  rmSync(program)
  return status === 0
}
