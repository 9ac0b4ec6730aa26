/**
 * Ensures that only one live process uses a data directory.
 *
 * Only the highest lock file `lock.<generation>` counts. The file identifies its process so precisely that a reused
 * process id or a reboot is not mistaken for the holder. A process that finds the holder dead links its own file as
 * the next generation; of several such processes one succeeds. A late process may link a number below the highest
 * that was just removed, so it checks again and withdraws. Only processes of this machine are judged: a data
 * directory shared by machines or isolated containers is not protected.
 */
import { execFileSync } from 'node:child_process'
import { linkSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RandomSource } from '../core/ports.ts'
import { codeOf, DataDirInUse, messageOf } from './errors.ts'

const LOCK = /^lock\.(\d+)$/
const DRAFT = /^lock\.draft\.(\d+)\.[0-9a-f]+$/
/** Another process made progress in each failed attempt, so this many failures mean that something is badly wrong. */
const ATTEMPTS_MAX = 1_000

interface LockHolder {
  readonly pid: number
  /** When the process started, in the system's own unit. */
  readonly began: string
  readonly boot: string
  readonly nonce: string
  readonly released?: true
}

export interface Lock {
  /** Releases the lock. Never throws: on a full disk the lock ends with the process. */
  release(): void
}

/**
 * Acquires the lock. Throws DataDirInUse while another live process, or another store of this process, holds the
 * directory.
 */
export function acquireLock(dataDir: string, random: RandomSource): Lock {
  const own: LockHolder = {
    pid: process.pid,
    began: processStart(process.pid) ?? 'unknown',
    boot: bootId(),
    nonce: Buffer.from(random.bytes(16)).toString('hex'),
  }
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const highest = highestIn(dataDir)
    const holder = highest === 0 ? undefined : readHolder(dataDir, highest)
    // The file vanished between listing and reading, so another process is at work.
    if (holder === 'gone') continue
    if (holder !== undefined && isAlive(holder)) throw new DataDirInUse(dataDir, holder.pid)
    if (!linkGeneration(dataDir, highest + 1, own)) continue
    if (!isHighest(dataDir, highest + 1)) {
      rmSync(lockFile(dataDir, highest + 1), { force: true })
      continue
    }
    removeOlder(dataDir, highest + 1)
    return { release: () => release(dataDir, highest + 1, own) }
  }
  throw new Error(
    `${dataDir} could not be locked: other processes keep changing its lock; stop them and try again`,
  )
}

/** Returns the process that holds the lock; undefined: none. Changes nothing. Throws when the lock cannot be read. */
export function findLockHolder(dataDir: string): number | undefined {
  const highest = highestIn(dataDir)
  const holder = highest === 0 ? undefined : readHolder(dataDir, highest)
  return holder !== undefined && holder !== 'gone' && isAlive(holder) ? holder.pid : undefined
}

function release(dataDir: string, generation: number, own: LockHolder): void {
  try {
    if (linkGeneration(dataDir, generation + 1, { ...own, released: true }))
      removeOlder(dataDir, generation + 1)
  } catch {
    // The disk is full. The next process will find that this process is gone.
  }
}

/** Links the lock file of a generation. Returns false when another process was first. */
function linkGeneration(dataDir: string, generation: number, holder: LockHolder): boolean {
  const draft = join(dataDir, `lock.draft.${holder.pid}.${holder.nonce}`)
  try {
    writeFileSync(draft, JSON.stringify(holder), { mode: 0o600 })
    linkSync(draft, lockFile(dataDir, generation))
    return true
  } catch (error) {
    // ENOENT: another holder took this process for dead and removed the draft.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/** Lists the folder twice, because a listing of a changing folder may miss files. */
function isHighest(dataDir: string, generation: number): boolean {
  return highestIn(dataDir) === generation && highestIn(dataDir) === generation
}

function highestIn(dataDir: string): number {
  return Math.max(0, ...readdirSync(dataDir).map((name) => Number(LOCK.exec(name)?.[1] ?? 0)))
}

function removeOlder(dataDir: string, generation: number): void {
  for (const name of readdirSync(dataDir)) {
    const older = Number(LOCK.exec(name)?.[1] ?? generation) < generation
    const draftOf = DRAFT.exec(name)?.[1]
    const abandoned = draftOf !== undefined && processStart(Number(draftOf)) === undefined
    if (older || abandoned) rmSync(join(dataDir, name), { force: true })
  }
}

/** Returns undefined for a file that identifies no process, which a power loss can leave. */
function readHolder(dataDir: string, generation: number): LockHolder | 'gone' | undefined {
  const text = readLock(lockFile(dataDir, generation))
  if (text === undefined) return 'gone'
  try {
    const holder: unknown = JSON.parse(text)
    return isHolder(holder) ? holder : undefined
  } catch {
    return undefined
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

function isHolder(value: unknown): value is LockHolder {
  return (
    typeof value === 'object' &&
    value !== null &&
    'pid' in value &&
    typeof value.pid === 'number' &&
    'began' in value
  )
}

function isAlive(holder: LockHolder): boolean {
  if (holder.released === true || holder.boot !== bootId()) return false
  return processStart(holder.pid) === holder.began
}

/** Returns when a live process started; undefined when there is no such process, or only a zombie. */
function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined
  return process.platform === 'linux' ? processStartOnLinux(pid) : processStartElsewhere(pid)
}

function processStartOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the command, which may contain any character; its closing bracket is the last one in the
    // line.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state] = fields
    return state === 'Z' || state === 'X' ? undefined : fields[19]
  } catch {
    return undefined
  }
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

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // On other systems the start time of the process is precise enough to tell boots apart.
    return 'unknown'
  }
}

function lockFile(dataDir: string, generation: number): string {
  return join(dataDir, `lock.${generation}`)
}
