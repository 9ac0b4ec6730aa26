/**
 * One live host a data directory.
 *
 * Files `lock.<g>`: only the highest generation counts. It names the process that made it, precisely enough that a
 * number given to another process, or a machine started anew, is not mistaken for it. Whoever finds the highest one
 * dead links its own as the next generation; a link is made whole or not at all, and only once, so of many that try
 * one succeeds. A late one may still link a number that was cleared away below the highest: it looks again after
 * linking, and steps back. Numbers never go down; letting go links a generation that says so.
 *
 * It judges processes of this machine only. A data directory on a disk shared by machines, or by containers that
 * cannot see each other's processes, is not protected.
 */
import { execFileSync } from 'node:child_process'
import { linkSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RandomSource } from '../core/ports.ts'
import { codeOf, DataDirInUse, messageOf } from './errors.ts'

const LOCK = /^lock\.(\d+)$/
const DRAFT = /^lock\.draft\.(\d+)\.[0-9a-f]+$/
/** Each turn is lost to somebody who made progress, so this many lost ones mean that something is very wrong. */
const ATTEMPTS_MAX = 1_000

interface LockHolder {
  readonly pid: number
  /** When the process began, in whatever unit the system counts. */
  readonly began: string
  readonly boot: string
  readonly nonce: string
  readonly released?: true
}

export interface Lock {
  /** Never throws: without room to say so, the lock is let go when the process ends. */
  release(): void
}

/** Throws DataDirInUse while another live process, or another store of this one, holds the directory. */
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
    // Gone between looking and reading: somebody else is moving.
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

function release(dataDir: string, generation: number, own: LockHolder): void {
  try {
    if (linkGeneration(dataDir, generation + 1, { ...own, released: true }))
      removeOlder(dataDir, generation + 1)
  } catch {
    // A full disk. Whoever comes next finds our process gone.
  }
}

/** Answers false when somebody else was first. */
function linkGeneration(dataDir: string, generation: number, holder: LockHolder): boolean {
  const draft = join(dataDir, `lock.draft.${holder.pid}.${holder.nonce}`)
  try {
    writeFileSync(draft, JSON.stringify(holder), { mode: 0o600 })
    linkSync(draft, lockFile(dataDir, generation))
    return true
  } catch (error) {
    // ENOENT: the draft was cleared away by a holder that took us for dead.
    if (codeOf(error) === 'EEXIST' || codeOf(error) === 'ENOENT') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/** Looks twice: a folder that changes while it is read may hide what comes and what goes. */
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

/** Undefined: a file that names nobody, as a power cut can leave it. */
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

/** A lock that cannot be read may be that of a living host, so whatever keeps us from reading it keeps us out. */
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

/** When a living process began; undefined when there is none of that number, or only its remains. */
function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined
  return process.platform === 'linux' ? processStartOnLinux(pid) : processStartElsewhere(pid)
}

function processStartOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command, second of the fields, may hold anything, but its closing bracket is the last one.
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
      // Local time would make us another process when the zone or the season changes.
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
    // Elsewhere the instant at which a process began tells boots apart well enough.
    return 'unknown'
  }
}

function lockFile(dataDir: string, generation: number): string {
  return join(dataDir, `lock.${generation}`)
}
