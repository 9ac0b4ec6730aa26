/**
 * The pull requests of one repository of the local code host: a folder of JSON files, one a pull request.
 *
 * A file appears whole or not at all, and never in another's place, so two who open one at the same time get two
 * numbers. It is changed only over what was read: of two who change it at the same time, here or in another process,
 * the second sees what the first wrote, and what a person edits by hand meanwhile stays. A file with a key that no
 * pull request has is refused, not rewritten: nothing in it is lost. What cannot be read is named, and takes no other
 * down with it. Links are not followed.
 */
import { constants } from 'node:fs'
import { link, lstat, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { PULL_FILES_MAX, PULL_PROBLEMS_MAX } from '../../protocol/limits.ts'
import type { KeptPull } from '../../protocol/pulls.ts'
import { printable } from '../../protocol/schema-errors.ts'
import { removeStaleDrafts, replaceIfUnchanged } from '../tracker/atomic-rewrite.ts'
import { withFileLock } from './local-lock.ts'
import { type DatedPull, decodePull, encodePull, errorCode, readPlainFile } from './local-pull-file.ts'

export interface PullFolderContents {
  /** Lowest number first. */
  readonly pulls: readonly DatedPull[]
  /** One sentence a file that cannot be read. */
  readonly problems: readonly string[]
}

const PULL_NAME = /^([1-9]\d{0,14})\.json$/
/** Of those that such a name holds. */
const NUMBER_MAX = 10 ** 15 - 1
/** How often a change is made anew because the file was edited by hand under it. */
const CHANGE_TRIES_MAX = 5
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

  /** Decided anew when the file was changed meanwhile. `edit` answers what it was given when there is nothing to do. */
  async change(
    number: number,
    edit: (pull: DatedPull) => Result<DatedPull>,
    clock: Pick<Clock, 'now' | 'after'>,
  ): Promise<Result<DatedPull>> {
    const path = this.pathOf(number)
    // Asked before anything is written beside it: what is not there is not locked.
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

  /** Under the next free number. */
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

  /** Once a folder and process: only what a crash left is there to be swept. */
  async #removeStaleDrafts(clock: Pick<Clock, 'now'>): Promise<void> {
    if (cleanedFolders.has(this.#path)) return
    cleanedFolders.add(this.#path)
    await removeStaleDrafts(this.#path, clock.now())
  }

  #unwritable(error: unknown) {
    return no(
      'failed',
      `${printable(this.#path)} cannot be written to (${errorCode(error)}); give switchyard the right to`,
    )
  }

  /** Answers whether the number was still free. Links are made only where nothing is, however many try. */
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
      if (errorCode(error) === 'EEXIST') return false
      throw error
    } finally {
      await rm(draft, { force: true })
    }
    await syncFolder(this.#path)
    return true
  }

  /** Ascending. Whatever bears a number takes it, also when it cannot be read. */
  async #listNumbers(): Promise<Result<number[]>> {
    try {
      if (!(await lstat(this.#path)).isDirectory()) {
        return notOwnFolder(this.#path)
      }
      const names = await readdir(this.#path)
      const numbers = names.flatMap((name) => PULL_NAME.exec(name)?.[1] ?? []).map(Number)
      return yes(numbers.sort((a, b) => a - b))
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return yes([])
      return no(
        'failed',
        `${printable(this.#path)} cannot be read (${errorCode(error)}); give switchyard the right to`,
      )
    }
  }
}

/** A number in the address of a pull request's file; undefined when it is none. */
export function pullNumberOf(fileName: string): number | undefined {
  const digits = PULL_NAME.exec(fileName)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function noNumberLeft(path: string) {
  return no(
    'conflict',
    `${printable(path)} has a pull request ${NUMBER_MAX}, the last there can be; rename its file`,
  )
}

function notOwnFolder(path: string) {
  return no('invalid', `${printable(path)} is no folder of its own; make it one`)
}

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
  return no('conflict', `${number}.json is being edited by somebody else all the time; try again`)
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
