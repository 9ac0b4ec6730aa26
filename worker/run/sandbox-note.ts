/**
 * `SandboxNote` keeps a note of the worker about a sandbox, in the worker's own folder of the run, which the agent never
 * sees. A file that is missing or written in part reads as undefined.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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

  async read(folders: Staging): Promise<T | undefined> {
    try {
      // Trusted content: only the worker writes into this folder.
      return JSON.parse(await readFile(this.#path(folders), 'utf8')) as T
    } catch {
      return undefined
    }
  }

  forget(folders: Staging): Promise<void> {
    return rm(this.#path(folders), { force: true })
  }

  #path({ staging }: Staging): string {
    return join(staging, this.#name)
  }
}
