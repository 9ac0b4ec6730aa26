/**
 * The pull requests of one repository of the local code host: a folder of JSON files, one a pull request.
 *
 * A file appears whole or not at all, and never in another's place, so two who open one at the same time get two
 * numbers. What cannot be read is named, and takes no other down with it. Links are not followed.
 */
import { constants } from 'node:fs'
import { type FileHandle, link, lstat, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Answer, no, yes } from '../../core/refusal.ts'
import { printable } from '../../protocol/explain.ts'
import { PULL_FILE_BYTES_MAX, PULL_FILES_MAX, PULL_PROBLEMS_MAX } from '../../protocol/limits.ts'
import { checker, parseJson } from '../../protocol/parse.ts'
import { KeptPull } from '../../protocol/pulls.ts'

export interface PullPicture {
  /** Lowest number first. */
  readonly pulls: readonly KeptPull[]
  /** One sentence a file that cannot be read. */
  readonly problems: readonly string[]
}

const PULL_NAME = /^([1-9]\d{0,14})\.json$/
const check = checker(KeptPull)
let drafts = 0

export class PullFolder {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  pathOf(number: number): string {
    return join(this.#path, `${number}.json`)
  }

  async look(): Promise<Answer<PullPicture>> {
    const numbers = await this.#numbers()
    if (!numbers.ok) return numbers
    const pulls: KeptPull[] = []
    const problems: string[] = []
    for (const number of numbers.value.slice(-PULL_FILES_MAX)) {
      const read = await this.read(number)
      if (read.ok) pulls.push(read.value)
      else if (read.refusal.kind !== 'unknown') problems.push(read.refusal.message)
    }
    return yes({ pulls, problems: problems.slice(0, PULL_PROBLEMS_MAX) })
  }

  async read(number: number): Promise<Answer<KeptPull>> {
    const name = `${number}.json`
    const text = await readPlain(this.pathOf(number), name)
    if (!text.ok) return text
    const parsed = parseJson(text.value)
    const pull = parsed.ok ? check(parsed.value) : parsed
    if (!pull.ok) return no('invalid', `${name}: ${pull.error}`)
    if (pull.value.number === number) return yes(pull.value)
    return no('invalid', `${name}: /number: must be ${number}, as in the file's name`)
  }

  /** Under the next free number. */
  async create(fill: (number: number) => KeptPull): Promise<Answer<KeptPull>> {
    try {
      await mkdir(this.#path, { recursive: true })
      for (;;) {
        const numbers = await this.#numbers()
        if (!numbers.ok) return numbers
        const pull = fill((numbers.value.at(-1) ?? 0) + 1)
        if (await this.#placed(pull)) return yes(pull)
      }
    } catch (error) {
      return no(
        'failed',
        `${printable(this.#path)} cannot be written to (${codeOf(error)}); give switchyard the right to`,
      )
    }
  }

  async withdraw(number: number): Promise<void> {
    await rm(this.pathOf(number), { force: true })
    await syncFolder(this.#path)
  }

  /** Answers whether the number was still free. Links are made only where nothing is, however many try. */
  async #placed(pull: KeptPull): Promise<boolean> {
    const draft = join(this.#path, `.${process.pid.toString(36)}-${(drafts++).toString(36)}.draft`)
    await rm(draft, { force: true })
    try {
      await writeSynced(draft, `${JSON.stringify(pull, null, 2)}\n`)
      await link(draft, this.pathOf(pull.number))
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
  async #numbers(): Promise<Answer<number[]>> {
    try {
      if (!(await lstat(this.#path)).isDirectory()) {
        return no('invalid', `${printable(this.#path)} is no folder of its own; make it one`)
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

async function readPlain(path: string, name: string): Promise<Answer<string>> {
  let handle: FileHandle | undefined
  try {
    // A pipe would keep us waiting for a writer, a link could lead anywhere.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await handle.stat()
    if (!stats.isFile()) return no('invalid', `${name} is no plain file; remove it`)
    if (stats.size > PULL_FILE_BYTES_MAX) {
      return no('invalid', `${name} has more than ${PULL_FILE_BYTES_MAX} bytes; shorten it`)
    }
    return yes(await handle.readFile('utf8'))
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return no('unknown', `there is no ${name}`)
    if (code === 'ELOOP') return no('invalid', `${name} is a link; put the file itself there`)
    return no('invalid', `${name} cannot be read (${code})`)
  } finally {
    await handle?.close()
  }
}

async function writeSynced(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o644)
  try {
    await handle.writeFile(text)
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

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}
