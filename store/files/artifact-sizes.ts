/**
 * ArtifactSizes knows how many bytes the artifacts of a run have, unfinished ones included. An artifact that is being
 * replaced counts once, with the larger of its file and its draft, because only one of them remains.
 *
 * The sum is read from the disk at the first question and counted from then on, so it needs no record of its own. The
 * caller writes the artifacts of one run one after the other.
 */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { digestOf, sizeOfDraft } from './artifact-draft.ts'
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
    const bytes = sumOf(await sizesOfFiles(artifacts), await namesIn(parts))
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

/** Returns the bytes that an artifact counts with a file and a draft of these sizes. */
export const countedBytes = (fileBytes: number, draftBytes: number): number => Math.max(fileBytes, draftBytes)

export const sizeOfFile = async (path: string): Promise<number> =>
  (await lstat(path).catch(() => undefined))?.size ?? 0

function sumOf(sizeByName: ReadonlyMap<string, number>, drafts: readonly string[]): number {
  const files =
    drafts.length === 0 ? [] : [...sizeByName].map(([name, size]) => [digestOf(name), size] as const)
  const sizeByDigest = new Map(files)
  const beyond = drafts.map((draft) => {
    const fileBytes = sizeByDigest.get(draft.split('.')[0] ?? '') ?? 0
    return countedBytes(fileBytes, sizeOfDraft(draft)) - fileBytes
  })
  return [...sizeByName.values(), ...beyond].reduce((sum, bytes) => sum + bytes, 0)
}

async function sizesOfFiles(folder: string): Promise<ReadonlyMap<string, number>> {
  const names = await namesIn(folder)
  const sizeByName = new Map<string, number>()
  for (let at = 0; at < names.length; at += FILES_AT_ONCE) {
    const some = names.slice(at, at + FILES_AT_ONCE)
    const sizes = await Promise.all(some.map((name) => sizeOfFile(join(folder, name))))
    for (const [index, name] of some.entries()) sizeByName.set(name, sizes[index] ?? 0)
  }
  return sizeByName
}
