/**
 * Reads and writes the lock files of a data directory, `lock.<generation>`, of which the highest counts.
 *
 * A file appears under its name whole: it is written under another one, locked by the kernel, synced, and then linked.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { FIRST_PID_NAMESPACE, type OwnerRecord, type OwnPlace } from '../core/owner.ts'
import { codeOf, messageOf } from '../protocol/message-of.ts'

/** The program that locks a file of the data directory; a file system of the network may hang. */
const FLOCK_MS_MAX = 10_000

const LOCK = /^lock\.(\d+)$/
const DRAFT = /^lock\.draft\.(\d+)\.[0-9a-f]+$/

export interface LinkedFile {
  /** Stays open: the kernel's lock lives as long, and no other file gets the number of this one. */
  readonly fd: number
  readonly record: OwnerRecord
}

/** Links the lock file of a generation. Returns undefined when another process was first. */
export function linkGeneration(
  dataDir: string,
  generation: number,
  owner: OwnerRecord,
): LinkedFile | undefined {
  const draft = join(dataDir, `lock.draft.${owner.pid}.${owner.nonce}`)
  const fd = openSync(draft, 'wx+', 0o600)
  let isLinked = false
  try {
    const record: OwnerRecord =
      owner.released !== true && lockOpenFile(fd) ? { ...owner, kernelLock: true } : owner
    writeFileSync(fd, JSON.stringify(record))
    // A file that lost its text would say nothing of an owner that lives on another machine.
    fsyncSync(fd)
    linkSync(draft, lockFile(dataDir, generation))
    isLinked = true
    return { fd, record }
  } catch (error) {
    // ENOENT: another process took this one for dead and removed the draft.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return undefined
    throw error
  } finally {
    if (!isLinked) closeSync(fd)
    rmSync(draft, { force: true })
  }
}

/** Lists the folder twice, because a listing of a changing folder may miss files. */
export function isHighest(dataDir: string, generation: number): boolean {
  return highestIn(dataDir) === generation && highestIn(dataDir) === generation
}

export const highestIn = (dataDir: string): number => Math.max(0, ...generationsIn(dataDir))

export const generationsIn = (dataDir: string): number[] =>
  readdirSync(dataDir).flatMap((name) => {
    const generation = LOCK.exec(name)?.[1]
    return generation === undefined ? [] : [Number(generation)]
  })

export function removeOlder(dataDir: string, generation: number): void {
  for (const name of readdirSync(dataDir)) {
    const older = Number(LOCK.exec(name)?.[1] ?? generation) < generation
    const draftOf = DRAFT.exec(name)?.[1]
    const abandoned = draftOf !== undefined && processStart(Number(draftOf)) === undefined
    if (older || abandoned) rmSync(join(dataDir, name), { force: true })
  }
}

/** Returns `damaged` for a file that identifies no process, which earlier versions left after a power loss. */
export function readOwner(dataDir: string, generation: number): OwnerRecord | 'gone' | 'damaged' {
  const text = readLock(lockFile(dataDir, generation))
  if (text === undefined) return 'gone'
  try {
    const owner: unknown = JSON.parse(text)
    return isOwnerRecord(owner) ? owner : 'damaged'
  } catch {
    return 'damaged'
  }
}

/** An unreadable lock may belong to a live host, so the directory is not used. */
function readLock(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(
      `the lock ${file} cannot be read (${messageOf(error)}), so another switchyard may be at work here; ` +
        'start as the user who owns it, or start with another --data-dir',
      { cause: error },
    )
  }
}

function isOwnerRecord(value: unknown): value is OwnerRecord {
  return (
    typeof value === 'object' &&
    value !== null &&
    'pid' in value &&
    typeof value.pid === 'number' &&
    'began' in value
  )
}

export function lockFile(dataDir: string, generation: number): string {
  return join(dataDir, `lock.${generation}`)
}

// ---- the place of a process ----------------------------------------------------------------------------------------

const MACHINE_ID = /^[0-9a-f]{32}$/
const CONTAINER_MARKS = ['/.dockerenv', '/run/.containerenv']
const OVERLAY_ROOT = /^\S+ \S+ \S+ \S+ \/ .* - overlay /m

/** Finds out where this process runs: its kernel, its machine, its process namespace, and when a process started. */
export function findOwnPlace(): OwnPlace {
  const pidNamespace = readPidNamespace()
  const machine = isInImage(pidNamespace) ? undefined : readMachineId()
  return {
    // On other systems the start time of a process is precise enough to tell boots apart.
    boot: readText('/proc/sys/kernel/random/boot_id')?.trim() ?? 'unknown',
    ...(machine === undefined ? {} : { machine }),
    ...(pidNamespace === undefined ? {} : { pidNamespace }),
  }
}

/** Returns when a live process started; undefined when there is no such process, or only a zombie. */
export function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined
  return process.platform === 'linux' ? processStartOnLinux(pid) : processStartElsewhere(pid)
}

/** Whether the files of this system are those of an image, so that other machines may have the same machine-id. */
const isInImage = (pidNamespace: string | undefined): boolean =>
  CONTAINER_MARKS.some((path) => existsSync(path)) ||
  (pidNamespace !== FIRST_PID_NAMESPACE && OVERLAY_ROOT.test(readText('/proc/self/mountinfo') ?? ''))

function readMachineId(): string | undefined {
  const id = readText('/etc/machine-id')?.trim() ?? ''
  return MACHINE_ID.test(id) ? id : undefined
}

function readPidNamespace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return undefined
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function processStartOnLinux(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // The second field is the command, which may contain any character; its closing bracket is the last one in the line.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  return state === 'Z' || state === 'X' ? undefined : fields[19]
}

function processStartElsewhere(pid: number): string | undefined {
  try {
    const began = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      // A change of the time zone must not change the result.
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/bin:/usr/bin' },
    })
    return began.trim() || undefined
  } catch {
    return undefined
  }
}

// ---- locks of the kernel -------------------------------------------------------------------------------------------

// Locks on open files (`flock`), which end with the process that has the file open, however it ends. Node has no such
// call. The program `flock` locks the file that it inherits; the lock belongs to the open file, so this process keeps it
// after the program has ended. Node's descriptors are closed in all other children.

/** A turn takes milliseconds, unless its process was stopped in it. */
const TURN_TRIES_MAX = 200
const TURN_POLL_MS = 25

/** Locks a file that no other process knows yet. Returns false where this system or file system has no such locks. */
function lockOpenFile(fd: number): boolean {
  return flock(fd, 'exclusive') === 'done'
}

/**
 * Returns whether a process holds the lock on a file. Throws when there is no such file. Asking takes a shared lock
 * for a moment, so that several processes may ask at once.
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
