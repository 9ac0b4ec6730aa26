/**
 * ArtifactSizes knows how many bytes the artifacts of a run have, unfinished ones included.
 *
 * The sum is read from the disk at the first question and counted from then on, so it needs no record of its own. The
 * caller writes the artifacts of one run one after the other.
 */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { sizeOfDraft } from './artifact-draft.ts'
import { namesIn } from './atomic.ts'

/** Above this the run that was asked for first is forgotten, and read again when it is needed. */
const RUNS_KEPT_MAX = 1_024
const FILES_AT_ONCE = 16

export interface ArtifactFolders {
  /** The run's folder, which identifies the run. */
  readonly run: string
  readonly artifacts: string
  readonly parts: string
}

export class ArtifactSizes {
  readonly #bytesByRun = new Map<string, number>()

  async bytesOf({ run, artifacts, parts }: ArtifactFolders): Promise<number> {
    const known = this.#bytesByRun.get(run)
    if (known !== undefined) return known
    const drafts = (await namesIn(parts)).reduce((sum, name) => sum + sizeOfDraft(name), 0)
    const bytes = drafts + (await bytesOfFiles(artifacts))
    for (const oldest of this.#bytesByRun.keys()) {
      if (this.#bytesByRun.size < RUNS_KEPT_MAX) break
      this.#bytesByRun.delete(oldest)
    }
    this.#bytesByRun.set(run, bytes)
    return bytes
  }

  add({ run }: ArtifactFolders, bytes: number): void {
    const known = this.#bytesByRun.get(run)
    if (known !== undefined) this.#bytesByRun.set(run, known + bytes)
  }

  forget({ run }: ArtifactFolders): void {
    this.#bytesByRun.delete(run)
  }
}

export const sizeOfFile = async (path: string): Promise<number> =>
  (await lstat(path).catch(() => undefined))?.size ?? 0

async function bytesOfFiles(folder: string): Promise<number> {
  const names = await namesIn(folder)
  let bytes = 0
  for (let at = 0; at < names.length; at += FILES_AT_ONCE) {
    const some = names.slice(at, at + FILES_AT_ONCE)
    const sizes = await Promise.all(some.map((name) => sizeOfFile(join(folder, name))))
    bytes += sizes.reduce((sum, size) => sum + size, 0)
  }
  return bytes
}
