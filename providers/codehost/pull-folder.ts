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
import { replaceIfSame, sweepDrafts } from '../tracker/atomic-rewrite.ts'
import { locked } from './local-lock.ts'
import { codeOf, type DatedPull, pullIn, readPlain, writable } from './local-pull-file.ts'

export interface PullPicture {
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
const swept = new Set<string>()
let drafts = 0

export class PullFolder {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  pathOf(number: number): string {
    return join(this.#path, `${number}.json`)
  }

  async look(): Promise<Result<PullPicture>> {
    const numbers = await this.#numbers()
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
    return folder?.isSymbolicLink() === true ? notOwn(this.#path) : this.#read(number)
  }

  async #read(number: number): Promise<Result<DatedPull>> {
    const file = await readPlain(this.pathOf(number), `${number}.json`)
    return file.ok ? pullIn(file.value, number) : file
  }

  /** Decided anew when the file was changed meanwhile. `edit` answers what it was given when there is nothing to do. */
  async change(
    number: number,
    edit: (pull: DatedPull) => Result<DatedPull>,
    clock: Pick<Clock, 'now' | 'after'>,
  ): Promise<Result<DatedPull>> {
    const path = this.pathOf(number)
    // Asked before anything is written beside it: what is not there is not locked.
    const there = await this.read(number)
    if (!there.ok) return there
    try {
      return await locked(join(this.#path, `.${number}.lock`), clock, async () => {
        await this.#sweep(clock)
        return changed(path, number, edit)
      })
    } catch (error) {
      return this.#unwritable(error)
    }
  }

  /** Under the next free number. */
  async create(fill: (number: number) => KeptPull): Promise<Result<KeptPull>> {
    try {
      await mkdir(this.#path, { recursive: true })
      for (;;) {
        const numbers = await this.#numbers()
        if (!numbers.ok) return numbers
        const number = (numbers.value.at(-1) ?? 0) + 1
        if (number > NUMBER_MAX) return noNumberLeft(this.#path)
        const pull = fill(number)
        const bytes = writable(pull, number)
        if (!bytes.ok) return bytes
        if (await this.#placed(number, bytes.value)) return yes(pull)
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
  async #sweep(clock: Pick<Clock, 'now'>): Promise<void> {
    if (swept.has(this.#path)) return
    swept.add(this.#path)
    await sweepDrafts(this.#path, clock.now())
  }

  #unwritable(error: unknown) {
    return no(
      'failed',
      `${printable(this.#path)} cannot be written to (${codeOf(error)}); give switchyard the right to`,
    )
  }

  /** Answers whether the number was still free. Links are made only where nothing is, however many try. */
  async #placed(number: number, bytes: Uint8Array): Promise<boolean> {
    const draft = join(
      this.#path,
      `.switchyard-${process.pid.toString(36)}-o${(drafts++).toString(36)}.draft`,
    )
    await rm(draft, { force: true })
    try {
      await writeSynced(draft, bytes)
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

  /** Ascending. Whatever bears a number takes it, also when it cannot be read. */
  async #numbers(): Promise<Result<number[]>> {
    try {
      if (!(await lstat(this.#path)).isDirectory()) {
        return notOwn(this.#path)
      }
      const names = await readdir(this.#path)
      const numbers = names.flatMap((name) => PULL_NAME.exec(name)?.[1] ?? []).map(Number)
      return yes(numbers.sort((a, b) => a - b))
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return yes([])
      return no(
        'failed',
        `${printable(this.#path)} cannot be read (${codeOf(error)}); give switchyard the right to`,
      )
    }
  }
}

/** A number in the address of a pull request's file; undefined when it is none. */
export function numberIn(fileName: string): number | undefined {
  const digits = PULL_NAME.exec(fileName)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function noNumberLeft(path: string) {
  return no(
    'conflict',
    `${printable(path)} has a pull request ${NUMBER_MAX}, the last there can be; rename its file`,
  )
}

function notOwn(path: string) {
  return no('invalid', `${printable(path)} is no folder of its own; make it one`)
}

async function changed(
  path: string,
  number: number,
  edit: (pull: DatedPull) => Result<DatedPull>,
): Promise<Result<DatedPull>> {
  for (let tries = 0; tries < CHANGE_TRIES_MAX; tries++) {
    const file = await readPlain(path, `${number}.json`)
    if (!file.ok) return file
    const pull = pullIn(file.value, number)
    const edited = pull.ok ? edit(pull.value) : pull
    if (!edited.ok || (pull.ok && edited.value === pull.value)) return edited
    const bytes = writable(edited.value, number)
    if (!bytes.ok) return bytes
    if (await replaceIfSame(path, file.value, bytes.value)) return edited
  }
  return no('conflict', `${number}.json is being edited by somebody else all the time; try again`)
}

async function writeSynced(path: string, bytes: Uint8Array): Promise<void> {
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
