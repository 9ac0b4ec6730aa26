/**
 * `SandboxNote` keeps a note of the worker about a sandbox, in the worker's own folder of the run, which the agent never
 * sees. A file that is missing or written in part reads as undefined.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunFolders } from '../git/git-ports.ts'

export type Staging = Pick<RunFolders, 'staging'>

export class SandboxNote<T> {
  readonly #name: string
  readonly #flush: boolean

  constructor(name: string, { flush }: { readonly flush: boolean }) {
    this.#name = name
    this.#flush = flush
  }

  async save(folders: Staging, value: T): Promise<void> {
    const path = this.#path(folders)
    await writeFile(`${path}.new`, JSON.stringify(value), { mode: 0o600, flush: this.#flush })
    await rename(`${path}.new`, path)
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
