/**
 * Stores the pull requests of one local repository: a folder with one JSON file each.
 *
 * A new file appears complete and never replaces another, so two concurrent callers get two numbers. A change replaces
 * only the content it was computed from; otherwise it is computed again. So neither another process nor an edit by hand
 * loses data. A file with unknown keys is refused rather than rewritten. Unreadable files are reported by name and do
 * not affect others. Links are not followed.
 */
import { constants } from 'node:fs'
import { link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../../core/ports/clock.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { codeOf } from '../../../protocol/message-of.ts'
import type { KeptPull } from '../../../protocol/pulls.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { removeStaleDrafts, replaceIfUnchanged } from '../../tracker/local/atomic-rewrite.ts'
import { type DatedPull, decodePull, encodePull, readPlainFile } from './pull-file.ts'

const PULL_FILES_MAX = 10_000
/** Unreadable files that a listing names; the rest is counted. */
const PULL_PROBLEMS_MAX = 100

export interface PullFolderContents {
  /** Ascending by number. */
  readonly pulls: readonly DatedPull[]
  /** A sentence for each unreadable file. */
  readonly problems: readonly string[]
}

const PULL_NAME = /^([1-9]\d{0,14})\.json$/
/** Largest number that such a file name can hold. */
const NUMBER_MAX = 10 ** 15 - 1
const cleanedFolders = new Set<string>()
let draftCount = 0

export class PullFolder {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  pathOf(number: number): string {
    return join(this.#path, `${number}.json`)
  }

  async readAll(): Promise<Result<PullFolderContents>> {
    const numbers = await this.#listNumbers()
    if (!numbers.ok) return numbers
    const pulls: DatedPull[] = []
    const problems: string[] = []
    for (const number of numbers.value.slice(-PULL_FILES_MAX)) {
      const read = await this.#read(number)
      if (read.ok) pulls.push(read.value)
      else if (read.refusal.kind !== 'unknown') problems.push(read.refusal.message)
    }
    return yes({ pulls, problems: problems.slice(0, PULL_PROBLEMS_MAX) })
  }

  async read(number: number): Promise<Result<DatedPull>> {
    const folder = await lstat(this.#path).catch(() => undefined)
    return folder?.isSymbolicLink() === true ? notOwnFolder(this.#path) : this.#read(number)
  }

  async #read(number: number): Promise<Result<DatedPull>> {
    const file = await readPlainFile(this.pathOf(number), `${number}.json`)
    return file.ok ? decodePull(file.value, number) : file
  }

  /** Applies `edit`, again if the file changed meanwhile. When `edit` returns its argument, nothing is written. */
  async change(
    number: number,
    edit: (pull: DatedPull) => Result<DatedPull>,
    clock: Pick<Clock, 'now' | 'after'>,
  ): Promise<Result<DatedPull>> {
    const path = this.pathOf(number)
    // Check first, because a lock for a missing file would create its folder.
    const current = await this.read(number)
    if (!current.ok) return current
    try {
      return await withFileLock(join(this.#path, `.${number}.lock`), clock, async () => {
        await this.#removeStaleDrafts(clock)
        return changeFile(path, number, edit)
      })
    } catch (error) {
      return this.#unwritable(error)
    }
  }

  /** Creates a pull request with the next free number. */
  async create(build: (number: number) => KeptPull): Promise<Result<KeptPull>> {
    try {
      await mkdir(this.#path, { recursive: true })
      for (;;) {
        const numbers = await this.#listNumbers()
        if (!numbers.ok) return numbers
        const number = (numbers.value.at(-1) ?? 0) + 1
        if (number > NUMBER_MAX) return noNumberLeft(this.#path)
        const pull = build(number)
        const bytes = encodePull(pull, number)
        if (!bytes.ok) return bytes
        if (await this.#createFile(number, bytes.value)) return yes(pull)
      }
    } catch (error) {
      return this.#unwritable(error)
    }
  }

  async withdraw(number: number): Promise<void> {
    await rm(this.pathOf(number), { force: true })
    await syncFolder(this.#path)
  }

  /** Runs once per folder and process: only a crash leaves drafts behind. */
  async #removeStaleDrafts(clock: Pick<Clock, 'now'>): Promise<void> {
    if (cleanedFolders.has(this.#path)) return
    cleanedFolders.add(this.#path)
    await removeStaleDrafts(this.#path, clock.now())
  }

  #unwritable(error: unknown) {
    return no(
      'failed',
      `${printable(this.#path)} cannot be written (${codeOf(error)}); give switchyard write access`,
    )
  }

  /** Answers false when the number was taken. `link` never replaces a file, however many processes try. */
  async #createFile(number: number, bytes: Uint8Array): Promise<boolean> {
    const draft = join(
      this.#path,
      `.switchyard-${process.pid.toString(36)}-o${(draftCount++).toString(36)}.draft`,
    )
    await rm(draft, { force: true })
    try {
      await writeFileSynced(draft, bytes)
      await link(draft, this.pathOf(number))
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false
      throw error
    } finally {
      await rm(draft, { force: true })
    }
    await syncFolder(this.#path)
    return true
  }

  /** Ascending. A file takes its number even when it is unreadable. */
  async #listNumbers(): Promise<Result<number[]>> {
    try {
      if (!(await lstat(this.#path)).isDirectory()) {
        return notOwnFolder(this.#path)
      }
      const names = await readdir(this.#path)
      const numbers = names.flatMap((name) => PULL_NAME.exec(name)?.[1] ?? []).map(Number)
      return yes(numbers.sort((a, b) => a - b))
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return yes([])
      return no(
        'failed',
        `${printable(this.#path)} cannot be read (${codeOf(error)}); give switchyard read access`,
      )
    }
  }
}

/** Undefined when the file name holds no pull request number. */
export function pullNumberOf(fileName: string): number | undefined {
  const digits = PULL_NAME.exec(fileName)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function noNumberLeft(path: string) {
  return no(
    'conflict',
    `${printable(path)} has pull request ${NUMBER_MAX}, the largest possible number; rename its file`,
  )
}

function notOwnFolder(path: string) {
  return no('invalid', `${printable(path)} is a link or a file; replace it with a folder`)
}

/** Attempts of a change whose file is edited by hand meanwhile. */
const CHANGE_TRIES_MAX = 5

async function changeFile(
  path: string,
  number: number,
  edit: (pull: DatedPull) => Result<DatedPull>,
): Promise<Result<DatedPull>> {
  for (let tries = 0; tries < CHANGE_TRIES_MAX; tries++) {
    const file = await readPlainFile(path, `${number}.json`)
    if (!file.ok) return file
    const pull = decodePull(file.value, number)
    const edited = pull.ok ? edit(pull.value) : pull
    if (!edited.ok || (pull.ok && edited.value === pull.value)) return edited
    const bytes = encodePull(edited.value, number)
    if (!bytes.ok) return bytes
    if (await replaceIfUnchanged(path, file.value, bytes.value)) return edited
  }
  return no('conflict', `${number}.json keeps changing while switchyard edits it; try again`)
}

async function writeFileSynced(path: string, bytes: Uint8Array): Promise<void> {
  const handle = await open(path, 'wx', 0o644)
  try {
    await handle.writeFile(bytes)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

// ---- the lock ------------------------------------------------------------------------------------------------------

type LockClock = Pick<Clock, 'now' | 'after'>

const LOCK_MS_MAX = 30_000
const LOCK_WAIT_MS = 10
const LOCK_TRIES_MAX = 500
const queues = new Map<string, Promise<unknown>>()
let setAsideCount = 0

/**
 * Gives one writer at a time access to a file, among all users of this lock in any process of this machine. The lock
 * is released even when `work` throws, and the error is passed on.
 *
 * Callers in this process wait in a queue. Across processes, the process that creates the lock file holds the lock. A
 * holder needs milliseconds, so a lock file older than 30 s is left from a crash and is removed. Removal first renames
 * the file and compares its inode, so only one of several contenders proceeds.
 *
 * @param path the lock file
 */
function withFileLock<T>(path: string, clock: LockClock, work: () => Promise<Result<T>>): Promise<Result<T>> {
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
    if (codeOf(error) === 'EEXIST') return undefined
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
    if (!['ENOENT', 'EEXIST'].includes(String(codeOf(error)))) throw error
  } finally {
    await rm(aside, { force: true })
  }
  return true
}
