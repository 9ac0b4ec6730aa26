/**
 * `SandboxNote` keeps a note of the worker about a sandbox, in the worker's own folder of the run, which the agent never
 * sees. A missing file reads as undefined, and a refusal names a file that is unreadable or damaged.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isNativeError } from 'node:util/types'
import { no, type Refused, type Result, yes } from '../../core/result.ts'
import type { RunFolders } from '../git/git-ports.ts'

export type Staging = Pick<RunFolders, 'staging'>

/** More than a note with the longest usual message of an agent. */
const SPACE_BYTES = 64 * 1024

export class SandboxNote<T> {
  readonly #name: string
  readonly #flush: boolean

  constructor(name: string, { flush }: { readonly flush: boolean }) {
    this.#name = name
    this.#flush = flush
  }

  /** Takes space for a note, so that a disk that is full later has place for it. */
  async reserve(folders: Staging): Promise<void> {
    await writeFile(`${this.#path(folders)}.space`, Buffer.alloc(SPACE_BYTES, ' '), { mode: 0o600 })
  }

  async save(folders: Staging, value: T): Promise<void> {
    const path = this.#path(folders)
    const text = JSON.stringify(value)
    try {
      await writeFile(`${path}.new`, text, { mode: 0o600, flush: this.#flush })
      await rename(`${path}.new`, path)
    } catch (error) {
      if (!(await this.#saveInSpace(path, text))) throw error
    }
  }

  /** Writes over the reserved blocks, up to the last byte: truncated ones would be free for others. */
  async #saveInSpace(path: string, text: string): Promise<boolean> {
    const padding = SPACE_BYTES - Buffer.byteLength(text)
    if (padding < 0) return false
    try {
      const options = { flag: 'r+', flush: this.#flush }
      await writeFile(`${path}.space`, text + ' '.repeat(padding), options)
      await rename(`${path}.space`, path)
      return true
    } catch {
      return false
    }
  }

  /** Refused: a note is there, so the sandbox must not be taken for one without a note (laws 36 and 37). */
  async read(folders: Staging): Promise<Result<T | undefined>> {
    const path = this.#path(folders)
    try {
      // Trusted content: only the worker writes into this folder.
      const note: unknown = JSON.parse(await readFile(path, 'utf8'))
      return typeof note === 'object' && note !== null ? yes(note as T) : unreadable(path, DAMAGED)
    } catch (error) {
      if (error instanceof SyntaxError) return unreadable(path, DAMAGED)
      if (!isNativeError(error)) throw error
      return 'code' in error && error.code === 'ENOENT' ? yes(undefined) : unreadable(path, error.message)
    }
  }

  forget(folders: Staging): Promise<void> {
    return rm(this.#path(folders), { force: true })
  }

  #path({ staging }: Staging): string {
    return join(staging, this.#name)
  }
}

const DAMAGED = 'the file is damaged'

const unreadable = (path: string, why: string): Refused =>
  no('failed', `the note about the work in the sandbox, ${path}, cannot be read: ${why}`)
