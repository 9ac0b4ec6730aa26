/**
 * Ensures that one process owns a data directory, across process namespaces, containers and machines.
 *
 * Only the highest lock file `lock.<generation>` counts; it describes its owner. A process that may succeed the owner
 * links its own file as the next generation; of several such processes one succeeds. A late process may link a number
 * below the highest that was just removed, so it checks again and withdraws. An owner whose file was removed writes it
 * anew, unless another process has a file there. Whether an owner lives, and who may succeed it, is a rule of `core/owner.ts`.
 */
import { type BigIntStats, closeSync, fstatSync, rmSync, statSync } from 'node:fs'
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
import type { Clock, RandomSource } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'
import { codeOf, isDiskFull } from '../protocol/message-of.ts'
import { DataDirInUse } from './errors.ts'
import { OpenFile } from './files/atomic.ts'
import {
  findKernelLock,
  findOwnPlace,
  generationsIn,
  highestIn,
  isHighest,
  type LinkedFile,
  linkGeneration,
  lockFile,
  processStart,
  readOwner,
  removeOlder,
} from './lock-files.ts'

/** Another process made progress in each failed attempt, so this many failures mean that something is badly wrong. */
const ATTEMPTS_MAX = 1_000

export interface LockOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly random: RandomSource
  readonly takeOver?: TakeOver | undefined
  readonly log?: Pick<Log, 'warn'>
}

export interface Lock {
  /** Whether every container of this machine can see that this process lives. */
  readonly hasKernelLock: boolean
  /**
   * Returns why this process is no longer the owner; undefined while it is. Costs one system call, unless the lock file was
   * removed or damaged.
   */
  findLoss(): string | undefined
  /** Releases the lock. Never throws: on a full disk the lock ends with the process. */
  release(): void
}

/**
 * Acquires the lock. Throws DataDirInUse while another process, or another store of this process, owns the directory
 * and is not known to be dead.
 */
export function acquireLock(dataDir: string, { clock, random, takeOver, log }: LockOptions): Lock {
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
      throw new DataDirInUse(dataDir, describeJudged(owner.record, own), {
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
    return new HeldLock(dataDir, { generation: highest + 1, ...linked }, log)
  }
  throw new Error(
    `${dataDir} could not be locked: other processes keep changing its lock; stop them and try again`,
  )
}

export interface FoundOwner {
  /** In its own process namespace. Absent when its lock file is damaged. */
  readonly pid?: number
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
  return {
    ...(record === 'damaged' ? {} : { pid: record.pid }),
    isAlive: verdict === 'alive',
    description: describeJudged(record, place),
  }
}

/**
 * Returns how to describe the process that has the database open, where such a process would own the directory although
 * no lock shows its life. Its lock file is missing or damaged, or it is of an earlier version, which shows its life in
 * its own process namespace only. Undefined: the lock says enough. Throws when the lock cannot be read.
 */
export function findHiddenOwner(dataDir: string): ((pid: number) => string) | undefined {
  const place = findOwnPlace()
  const owner = judgeGeneration(dataDir, highestIn(dataDir), place)
  if (owner === 'gone' || (owner !== undefined && owner.verdict !== 'dead')) return undefined
  if (owner === undefined || owner.record === 'damaged')
    return (pid) => `process ${pid}, whose lock file is missing or damaged`
  const { record } = owner
  const isHidden = isOfEarlierVersion(record) && record.released !== true && record.boot === place.boot
  return isHidden
    ? () => `${describeOwner(record, place)} of an earlier version, in another container`
    : undefined
}

interface JudgedOwner {
  /** A process that holds the lock of the kernel on a damaged file lives; nothing else is known of it. */
  readonly record: OwnerRecord | 'damaged'
  readonly verdict: OwnerVerdict
}

const describeJudged = (record: JudgedOwner['record'], place: OwnPlace): string =>
  record === 'damaged' ? 'a process that holds the damaged lock file' : describeOwner(record, place)

function judgeGeneration(
  dataDir: string,
  generation: number,
  place: OwnPlace,
): JudgedOwner | 'gone' | undefined {
  if (generation === 0) return undefined
  const record = readOwner(dataDir, generation)
  if (record === 'gone') return record
  try {
    const kernelLock = () => findKernelLock(lockFile(dataDir, generation))
    if (record === 'damaged') return { record, verdict: kernelLock() === 'held' ? 'alive' : 'dead' }
    return { record, verdict: judgeOwner(record, place, { kernelLock, startOf: processStart }) }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'gone'
    throw error
  }
}

// ---- holding -------------------------------------------------------------------------------------------------------

type FileNumber = Pick<BigIntStats, 'dev' | 'ino'>

const isSameFile = (a: FileNumber, b: FileNumber): boolean => a.dev === b.dev && a.ino === b.ino

interface OwnFile extends LinkedFile {
  readonly generation: number
}

class HeldLock implements Lock {
  readonly hasKernelLock: boolean
  readonly #dataDir: string
  readonly #folder: FileNumber
  readonly #log: LockOptions['log']
  #own: OwnFile
  #file: OpenFile
  #isReleased = false

  constructor(dataDir: string, own: OwnFile, log: LockOptions['log']) {
    this.#dataDir = dataDir
    this.#folder = statSync(dataDir, { bigint: true })
    this.#log = log
    this.#own = own
    this.#file = new OpenFile(lockFile(dataDir, own.generation))
    this.hasKernelLock = own.record.kernelLock === true
  }

  findLoss(): string | undefined {
    const loss = this.#file.findLoss()
    if (loss === undefined || this.#writeAnew()) return undefined
    return `${describeSuccessor(this.#dataDir) ?? loss.reason}, so this one writes nothing more`
  }

  release(): void {
    try {
      if (this.findLoss() === undefined) this.#linkReleased({ ...this.#own.record, released: true })
    } catch {
      // The disk is full. The next process will find that this process is gone.
    }
    this.#isReleased = true
    closeSync(this.#own.fd)
  }

  #linkReleased(record: OwnerRecord): void {
    const { generation } = this.#own
    const linked = linkGeneration(this.#dataDir, generation + 1, record)
    if (linked === undefined) return
    closeSync(linked.fd)
    removeOlder(this.#dataDir, generation + 1)
  }

  /**
   * Writes the lock file anew where somebody removed or damaged it. Returns whether this process is still the owner: no
   * other process has a file here. A process that starts meanwhile links its file before it checks, and so does this one,
   * so one of the two sees the other and withdraws.
   */
  #writeAnew(): boolean {
    try {
      const isSameFolder = isSameFile(statSync(this.#dataDir, { bigint: true }), this.#folder)
      if (this.#isReleased || !isSameFolder || !this.#hasOnlyOwn()) return false
      return this.#succeedItself(Math.max(highestIn(this.#dataDir) + 1, this.#own.generation))
    } catch (error) {
      // A full disk has no place for the file of another process either. The next look tries again.
      return isDiskFull(error)
    }
  }

  /** The file of this process may have lost its text in its place, or a copy of it may lie there. */
  #hasOnlyOwn(): boolean {
    const { fd, record } = this.#own
    const own = fstatSync(fd, { bigint: true })
    return generationsIn(this.#dataDir).every((generation) => {
      if (isSameFile(statSync(lockFile(this.#dataDir, generation), { bigint: true }), own)) return true
      const owner = readOwner(this.#dataDir, generation)
      return owner !== 'gone' && owner !== 'damaged' && owner.nonce === record.nonce
    })
  }

  #succeedItself(generation: number): boolean {
    const { kernelLock: _, ...record } = this.#own.record
    const linked = linkGeneration(this.#dataDir, generation, record)
    if (linked === undefined) return false
    if (!isHighest(this.#dataDir, generation) || !this.#hasOnlyOwn()) {
      rmSync(lockFile(this.#dataDir, generation), { force: true })
      closeSync(linked.fd)
      return false
    }
    removeOlder(this.#dataDir, generation)
    closeSync(this.#own.fd)
    this.#own = { generation, ...linked }
    this.#file = new OpenFile(lockFile(this.#dataDir, generation))
    this.#log?.warn(
      { file: lockFile(this.#dataDir, generation) },
      'the lock file was removed or damaged, and is written anew',
    )
    return true
  }
}

/** Undefined when nobody else has a lock, or the other lock cannot be read. */
function describeSuccessor(dataDir: string): string | undefined {
  try {
    const highest = highestIn(dataDir)
    const owner = highest === 0 ? undefined : readOwner(dataDir, highest)
    if (owner !== undefined && owner !== 'gone' && owner !== 'damaged')
      return `another switchyard has taken over ${dataDir} (${describeOwner(owner, findOwnPlace())})`
  } catch {
    // The folder is gone too.
  }
  return undefined
}
