/**
 * Ensures that one process owns a data directory, across process namespaces, containers and machines.
 *
 * Only the highest lock file `lock.<generation>` counts; it describes its owner. A process that may succeed the owner
 * links its own file as the next generation; of several such processes one succeeds. A late process may link a number
 * below the highest that was just removed, so it checks again and withdraws. An owner whose file was removed is no
 * owner any more. Whether an owner lives, and who may succeed it, is a rule of `core/owner.ts`.
 */
import { closeSync, rmSync } from 'node:fs'
import { hostname } from 'node:os'
import {
  describeOwner,
  isOfEarlierVersion,
  judgeOwner,
  mayTakeOver,
  type OwnerRecord,
  type OwnerVerdict,
  type OwnPlace,
  type TakeOver,
} from '../core/owner.ts'
import type { Clock, RandomSource } from '../core/ports.ts'
import { codeOf, DataDirInUse } from './errors.ts'
import { OpenFile } from './files/open-file.ts'
import { findKernelLock } from './kernel-lock.ts'
import {
  highestIn,
  isHighest,
  type LinkedFile,
  linkGeneration,
  lockFile,
  readOwner,
  removeOlder,
} from './lock-files.ts'
import { findOwnPlace, processStart } from './own-place.ts'

/** Another process made progress in each failed attempt, so this many failures mean that something is badly wrong. */
const ATTEMPTS_MAX = 1_000

export interface LockOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly random: RandomSource
  readonly takeOver?: TakeOver | undefined
}

export interface Lock {
  /** Whether every container of this machine can see that this process lives. */
  readonly hasKernelLock: boolean
  /** Returns why this process is no longer the owner; undefined while it is. Costs one system call. */
  findLoss(): string | undefined
  /** Releases the lock. Never throws: on a full disk the lock ends with the process. */
  release(): void
}

/**
 * Acquires the lock. Throws DataDirInUse while another process, or another store of this process, owns the directory
 * and is not known to be dead.
 */
export function acquireLock(dataDir: string, { clock, random, takeOver }: LockOptions): Lock {
  const own: OwnerRecord = {
    pid: process.pid,
    began: processStart(process.pid) ?? 'unknown',
    ...findOwnPlace(),
    nonce: Buffer.from(random.bytes(16)).toString('hex'),
    hostname: hostname(),
    since: new Date(clock.now()).toISOString(),
  }
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const highest = highestIn(dataDir)
    const owner = judgeGeneration(dataDir, highest, own)
    // The file vanished between listing and reading, so another process is at work.
    if (owner === 'gone') continue
    if (owner !== undefined && !mayTakeOver(owner.verdict, takeOver))
      throw new DataDirInUse(dataDir, describeOwner(owner.record, own), {
        isAlive: owner.verdict === 'alive',
        takesOver: takeOver !== undefined,
      })
    const linked = linkGeneration(dataDir, highest + 1, own)
    if (linked === undefined) continue
    if (!isHighest(dataDir, highest + 1)) {
      rmSync(lockFile(dataDir, highest + 1), { force: true })
      closeSync(linked.fd)
      continue
    }
    removeOlder(dataDir, highest + 1)
    return new HeldLock(dataDir, highest + 1, linked)
  }
  throw new Error(
    `${dataDir} could not be locked: other processes keep changing its lock; stop them and try again`,
  )
}

export interface FoundOwner {
  /** In its own process namespace. */
  readonly pid: number
  /** Whether it is known to live; otherwise a person may know better. */
  readonly isAlive: boolean
  /** The process, its machine, and since when it owns the directory. */
  readonly description: string
}

/**
 * Returns the owner of a data directory, unless it is dead; undefined: there is none. Changes nothing. Throws when the
 * lock cannot be read.
 */
export function findOwner(dataDir: string): FoundOwner | undefined {
  const place = findOwnPlace()
  const owner = judgeGeneration(dataDir, highestIn(dataDir), place)
  if (owner === undefined || owner === 'gone' || owner.verdict === 'dead') return undefined
  const { record, verdict } = owner
  return { pid: record.pid, isAlive: verdict === 'alive', description: describeOwner(record, place) }
}

/**
 * Describes an owner of an earlier version that did not release the lock and is not seen to live. Such an owner shows
 * its life in its own process namespace only, so only its database says more. Throws when the lock cannot be read.
 */
export function findHiddenOwner(dataDir: string): string | undefined {
  const place = findOwnPlace()
  const owner = judgeGeneration(dataDir, highestIn(dataDir), place)
  if (owner === undefined || owner === 'gone' || owner.verdict !== 'dead') return undefined
  const { record } = owner
  const isHidden = isOfEarlierVersion(record) && record.released !== true && record.boot === place.boot
  return isHidden ? `${describeOwner(record, place)} of an earlier version, in another container` : undefined
}

interface JudgedOwner {
  readonly record: OwnerRecord
  readonly verdict: OwnerVerdict
}

function judgeGeneration(
  dataDir: string,
  generation: number,
  place: OwnPlace,
): JudgedOwner | 'gone' | undefined {
  const record = generation === 0 ? undefined : readOwner(dataDir, generation)
  if (record === undefined || record === 'gone') return record
  try {
    const kernelLock = () => findKernelLock(lockFile(dataDir, generation))
    return { record, verdict: judgeOwner(record, place, { kernelLock, startOf: processStart }) }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'gone'
    throw error
  }
}

// ---- holding -------------------------------------------------------------------------------------------------------

class HeldLock implements Lock {
  readonly hasKernelLock: boolean
  readonly #dataDir: string
  readonly #generation: number
  readonly #linked: LinkedFile
  readonly #file: OpenFile

  constructor(dataDir: string, generation: number, linked: LinkedFile) {
    this.#dataDir = dataDir
    this.#generation = generation
    this.#linked = linked
    this.#file = new OpenFile(lockFile(dataDir, generation))
    this.hasKernelLock = linked.record.kernelLock === true
  }

  findLoss(): string | undefined {
    const loss = this.#file.findLoss()
    return loss && `${describeSuccessor(this.#dataDir) ?? loss.reason}, so this one writes nothing more`
  }

  release(): void {
    const { record, fd } = this.#linked
    try {
      if (this.findLoss() === undefined) this.#linkReleased({ ...record, released: true })
    } catch {
      // The disk is full. The next process will find that this process is gone.
    }
    closeSync(fd)
  }

  #linkReleased(record: OwnerRecord): void {
    const linked = linkGeneration(this.#dataDir, this.#generation + 1, record)
    if (linked === undefined) return
    closeSync(linked.fd)
    removeOlder(this.#dataDir, this.#generation + 1)
  }
}

/** Undefined when nobody else has a lock, or the other lock cannot be read. */
function describeSuccessor(dataDir: string): string | undefined {
  try {
    const highest = highestIn(dataDir)
    const owner = highest === 0 ? undefined : readOwner(dataDir, highest)
    if (owner !== undefined && owner !== 'gone')
      return `another switchyard has taken over ${dataDir} (${describeOwner(owner, findOwnPlace())})`
  } catch {
    // The folder is gone too.
  }
  return undefined
}
