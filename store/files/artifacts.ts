/**
 * Stores the artifacts of runs as `runs/<runId>/artifacts/<name>`. No name leads out of that folder.
 *
 * Agents choose the names and the bytes. A file appears under its name only when its last part is on disk, and is
 * returned only when it is a plain file with one link in a folder that is no symbolic link.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readFile, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArtifactLookup, Artifacts } from '../../core/ports/store.ts'
import { contentTypeOf } from '../../core/run/content-type.ts'
import { ARTIFACT_BYTES_MAX, ARTIFACT_PART_BYTES_MAX, RUN_ARTIFACTS_MAX } from '../../protocol/limits.ts'
import { codeOf } from '../../protocol/message-of.ts'
import {
  type ArtifactDraft,
  type ArtifactProgress,
  advance,
  beginDraft,
  digestOf,
  draftDigests,
  dropDrafts,
  findProgress,
  publish,
  refuseDraft,
  sizeOfDraft,
  writePart,
} from './artifact-draft.ts'
import { artifactNameFault } from './artifact-name.ts'
import { isOwnFolder, namesIn } from './atomic.ts'
import { runFolder } from './run-folder.ts'
import { type GuardWrite, StoreQueue } from './store-queue.ts'

type ArtifactWriteResult = 'kept' | 'repeat' | { readonly refused: string }

export class ArtifactsOnDisk implements Artifacts {
  readonly #runs: string
  readonly #bytesMax: number
  readonly #queue: StoreQueue
  readonly #sizes = new ArtifactSizes()

  constructor(runs: string, guardWrite?: GuardWrite, bytesMax = ARTIFACT_BYTES_MAX) {
    this.#runs = runs
    this.#queue = new StoreQueue(guardWrite)
    this.#bytesMax = bytesMax
  }

  async write(
    runId: string,
    name: string,
    part: number,
    data: Uint8Array,
    final: boolean,
    runBytesMax = Number.POSITIVE_INFINITY,
  ): Promise<ArtifactWriteResult> {
    const fault = artifactNameFault(name) ?? partFault(part, data)
    if (fault !== undefined) return { refused: fault }
    const paths = this.#paths(runId, name)
    return this.#queue.run(runId, () => this.#write(paths, part, data, final, runBytesMax))
  }

  async find(runId: string, name: string): Promise<ArtifactLookup> {
    const fault = artifactNameFault(name)
    if (fault !== undefined) return { is: 'escape', reason: fault }
    const { path, artifacts } = this.#paths(runId, name)
    if (!(await isOwnFolder(artifacts))) return { is: 'missing' }
    const stats = await plainFile(path)
    if (stats === undefined) return { is: 'missing' }
    if (stats === 'odd') return { is: 'escape', reason: 'the name is not that of a plain file' }
    return { is: 'file', size: stats.size, ...contentTypeOf(name), read: () => bytesOf(path, stats) }
  }

  async names(runId: string): Promise<string[]> {
    const folder = this.#paths(runId, '').artifacts
    if (!(await isOwnFolder(folder))) return []
    const names = (await namesIn(folder)).filter((name) => artifactNameFault(name) === undefined)
    const stats = await Promise.all(names.map((name) => lstat(join(folder, name)).catch(() => undefined)))
    return names.filter((_name, i) => stats[i]?.isFile() === true && stats[i].nlink === 1).sort()
  }

  async remove(runId: string, name?: string): Promise<void> {
    const paths = this.#paths(runId, name ?? '')
    const { run, artifacts, parts, path } = paths
    if (name !== undefined && artifactNameFault(name) !== undefined) return
    return this.#queue.run(runId, async () => {
      this.#sizes.forget(paths)
      if (name !== undefined) {
        if (await isOwnFolder(parts)) await dropDrafts(parts, name)
        if (await isOwnFolder(artifacts)) await rm(path, { force: true })
        return
      }
      // rm removes a symbolic link and does not follow it.
      await rm(artifacts, { recursive: true, force: true })
      await rm(parts, { recursive: true, force: true })
      // The event file may still be in the folder; the last removal removes the folder.
      await rmdir(run).catch(() => undefined)
    })
  }

  /** Refuses new work, and resolves when earlier work is done. */
  async close(): Promise<void> {
    await this.#queue.close()
  }

  #paths(runId: string, name: string): ArtifactPaths {
    const run = runFolder(this.#runs, runId)
    const artifacts = join(run, 'artifacts')
    return { run, artifacts, parts: join(run, 'parts'), name, path: join(artifacts, name) }
  }

  async #write(
    paths: ArtifactPaths,
    part: number,
    data: Uint8Array,
    final: boolean,
    runBytesMax: number,
  ): Promise<ArtifactWriteResult> {
    const draft = await this.#draftFor(paths, part, data, final)
    if (!isDraft(draft)) return draft
    const fileBytes = await sizeOfFile(paths.path)
    const bytes = draft.size + data.length
    const before = countedBytes(fileBytes, draft.size)
    const otherBytes = (await this.#sizes.bytesOf(paths)) - before
    const refused = this.#refusalOf(paths.name, bytes, otherBytes, runBytesMax)
    if (refused !== undefined) return this.#refuse(paths, draft, refused)
    await writePart(draft, data)
    if (final) await publish(draft, paths.path)
    else await advance(draft, data.length)
    this.#sizes.add(paths, (final ? bytes : countedBytes(fileBytes, bytes)) - before)
    return 'kept'
  }

  /** Refuses a part and drops what its artifact has so far. The refusal holds until a first part comes again. */
  async #refuse(paths: ArtifactPaths, draft: ArtifactDraft, refused: string): Promise<ArtifactWriteResult> {
    // A first part is judged anew when it is repeated.
    if (draft.next > 0) await refuseDraft(draft, refused)
    await this.#uncount(paths, draft)
    return { refused }
  }

  /** Counts an artifact without its draft. */
  async #uncount(paths: ArtifactPaths, draft: ArtifactDraft): Promise<void> {
    const fileBytes = await sizeOfFile(paths.path)
    this.#sizes.add(paths, fileBytes - countedBytes(fileBytes, draft.size))
  }

  /** @param bytes of the artifact with the new part, beside `otherBytes` of all other artifacts */
  #refusalOf(name: string, bytes: number, otherBytes: number, runBytesMax: number): string | undefined {
    if (bytes > this.#bytesMax) return `${name} is larger than ${this.#bytesMax} bytes`
    return otherBytes + bytes > runBytesMax ? describeFullBudget(runBytesMax) : undefined
  }

  /** Returns the draft for this part, or the result when the part is not to be written. */
  async #draftFor(
    paths: ArtifactPaths,
    part: number,
    data: Uint8Array,
    final: boolean,
  ): Promise<ArtifactDraft | ArtifactWriteResult> {
    const progress = await findProgress(paths.parts, paths.name)
    if (part === 0) return this.#startOver(paths, progress, data, final)
    const { draft, refusal } = progress
    if (draft !== undefined) {
      if (refusal !== undefined) return this.#refuse(paths, draft, refusal)
      if (part === draft.next) return draft
      return part < draft.next
        ? 'repeat'
        : this.#refuse(paths, draft, describeEarlyPart(paths.name, part, draft.next))
    }
    if (refusal !== undefined) return { refused: refusal }
    // After a crash behind the last part, the worker sends the end of the file again.
    return (await isFile(paths.path)) ? 'repeat' : { refused: describeEarlyPart(paths.name, part, 0) }
  }

  /** Handles a first part: a repetition, or a new attempt, which replaces the earlier file. */
  async #startOver(
    paths: ArtifactPaths,
    { draft, refusal }: ArtifactProgress,
    data: Uint8Array,
    final: boolean,
  ): Promise<ArtifactDraft | ArtifactWriteResult> {
    const isSameDraft = async () =>
      draft?.next === 1 && refusal === undefined && isSameContent(draft.path, draft.size, data)
    if (!final && (await isSameDraft())) return 'repeat'
    if (final && draft === undefined && (await isSameContent(paths.path, data.length, data))) return 'repeat'
    if (!(await isBelowArtifactLimit(paths))) {
      return { refused: `the run has ${RUN_ARTIFACTS_MAX} artifacts already` }
    }
    if (draft !== undefined) await this.#uncount(paths, draft)
    return beginDraft(paths.parts, paths.name)
  }
}

/** Why a part is refused that the budget of its run has no space for. */
export const describeFullBudget = (bytesMax: number): string =>
  `the artifacts of a run have at most ${bytesMax} bytes together (sandbox.maxArtifactsMib)`

/** Why a part is refused before which parts are missing. */
export const describeEarlyPart = (name: string, part: number, next: number): string =>
  `part ${part} of ${name} came before part ${next}`

interface ArtifactPaths {
  readonly run: string
  readonly artifacts: string
  readonly parts: string
  readonly name: string
  readonly path: string
}

function isDraft(value: ArtifactDraft | ArtifactWriteResult): value is ArtifactDraft {
  return typeof value === 'object' && 'path' in value
}

/** Counts drafts too, because unfinished files also fill the disk. */
async function isBelowArtifactLimit({ artifacts, parts, name }: ArtifactPaths): Promise<boolean> {
  const names = await namesIn(artifacts)
  const drafts = await draftDigests(parts)
  if (names.length + drafts.length < RUN_ARTIFACTS_MAX) return true
  const all = new Set([...names.map(digestOf), ...drafts])
  return all.size < RUN_ARTIFACTS_MAX || all.has(digestOf(name))
}

function partFault(part: number, data: Uint8Array): string | undefined {
  if (!Number.isSafeInteger(part) || part < 0) return 'parts are numbered 0, 1, 2 …'
  return data.length > ARTIFACT_PART_BYTES_MAX
    ? `a part is at most ${ARTIFACT_PART_BYTES_MAX} bytes`
    : undefined
}

// ---- the sizes of many artifacts -----------------------------------------------------------------------------------

/** Above this the run that was asked for first is forgotten, and read again when it is needed. */
const RUNS_KEPT_MAX = 1_024
const FILES_AT_ONCE = 16

interface ArtifactFolders {
  /** The run's folder, which identifies the run. */
  readonly run: string
  readonly artifacts: string
  readonly parts: string
}

/**
 * ArtifactSizes knows how many bytes the artifacts of a run have, unfinished ones included. An artifact that is being
 * replaced counts once, with the larger of its file and its draft, because only one of them remains.
 *
 * The sum is read from the disk at the first question and counted from then on, so it needs no record of its own. The
 * caller writes the artifacts of one run one after the other.
 */
class ArtifactSizes {
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
const countedBytes = (fileBytes: number, draftBytes: number): number => Math.max(fileBytes, draftBytes)

const sizeOfFile = async (path: string): Promise<number> =>
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

// ---- files ---------------------------------------------------------------------------------------------------------

const CHUNK_BYTES = 64 * 1024
/** Opening a FIFO must not wait for a writer. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
/** Error codes of opening a link, socket or device. These codes concern the name; other errors concern the system. */
const NOT_PLAIN_CODES = new Set<unknown>(['ELOOP', 'EMLINK', 'ENXIO', 'ENODEV', 'ENOTDIR'])

/**
 * Reads plain files in folders whose content somebody else may have chosen: links, FIFOs and devices are not opened.
 *
 * Returns undefined when there is no file, and `odd` for something that the store would not create.
 */
async function plainFile(path: string): Promise<Stats | 'odd' | undefined> {
  let handle: FileHandle
  try {
    handle = await open(path, READ)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    if (NOT_PLAIN_CODES.has(codeOf(error))) return 'odd'
    throw error
  }
  try {
    const stats = await handle.stat()
    if (stats.isDirectory()) return undefined
    return stats.isFile() && stats.nlink === 1 ? stats : 'odd'
  } finally {
    await handle.close()
  }
}

async function isFile(path: string): Promise<boolean> {
  const stats = await plainFile(path)
  return stats !== undefined && stats !== 'odd'
}

async function isSameContent(path: string, size: number, data: Uint8Array): Promise<boolean> {
  const stats = await plainFile(path)
  if (stats === undefined || stats === 'odd' || size !== data.length || stats.size !== size) return false
  return (await readFile(path)).equals(data)
}

/** Opens the file on the first read, so that an unused result holds no descriptor. */
async function* bytesOf(path: string, expected: Stats): AsyncGenerator<Uint8Array> {
  const handle = await open(path, READ)
  try {
    const { dev, ino } = await handle.stat()
    if (dev !== expected.dev || ino !== expected.ino)
      throw new Error('the artifact was replaced meanwhile; ask again')
    for (let at = 0; at < expected.size; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, expected.size - at))
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, at)
      if (bytesRead === 0) throw new Error('the artifact became shorter while it was read')
      at += bytesRead
      yield chunk.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}
