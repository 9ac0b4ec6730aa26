/**
 * Replaces files atomically: after a crash at any instant the file has either the old text or the new text.
 *
 * The draft is in the same folder under a unique name and owner-only from its first byte. The draft is synced and
 * renamed over the old file, then the folder is synced so that the rename survives a crash. A crash can leave a
 * draft; `sweepDrafts` removes those, but none that is being written.
 */
import { constants, renameSync, statSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf } from '../../protocol/message-of.ts'

const DRAFT = /^\.(.+)\.([0-9a-z]+)\.draft$/
/** A folder with the name of a draft, which this module never creates. */
const IS_FOLDER = new Set<unknown>(['EISDIR', 'ERR_FS_EISDIR'])
let drafts = 0
/** Drafts that are being written, which `sweepDrafts` must keep. */
const draftsInProgress = new Set<string>()

/**
 * Replaces a file by one with mode 0600. `still` is called last, directly before the rename, so that its answer can
 * hardly become outdated. Returns whether the file was replaced.
 */
export async function replaceFile(
  path: string,
  text: string | Uint8Array,
  still?: () => boolean,
): Promise<boolean> {
  const draft = draftOf(path)
  draftsInProgress.add(draft)
  try {
    await writeSynced(draft, text)
    if (still !== undefined && !still()) {
      await rm(draft, { force: true })
      return false
    }
    // Synchronous after `still()`, so that no other code of this process runs in between.
    renameSync(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  } finally {
    draftsInProgress.delete(draft)
  }
  await syncFolder(dirname(path))
  return true
}

/** Creates a file that must not exist yet; durable when it resolves. */
export async function createFile(path: string, text: string | Uint8Array): Promise<void> {
  try {
    await writeSynced(path, text)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') await rm(path, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
}

/** Removes a file durably; does nothing when there is none. */
export async function removeFileDurably(path: string): Promise<void> {
  await rm(path, { force: true })
  await syncFolder(dirname(path))
}

/** Removes drafts that earlier processes left in that folder; with `own`, only drafts of that file. */
export async function sweepDrafts(folder: string, own?: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    const of = DRAFT.exec(name)?.[1]
    if (of === undefined || (own !== undefined && of !== own)) continue
    if (!draftsInProgress.has(join(folder, name))) await removeFile(join(folder, name))
  }
}

async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true })
  } catch (error) {
    if (!IS_FOLDER.has(codeOf(error))) throw error
  }
}

/**
 * Creates `folder` and its missing parents with mode 0700, and syncs each into its parent. Node's own recursive `mkdir`
 * tries without end where the system makes no folders, as below /proc or where an automount is away.
 */
export async function makeFolder(folder: string): Promise<void> {
  const missing: string[] = []
  for (let at = resolve(folder); !(await isFolder(at)); at = dirname(at)) missing.unshift(at)
  for (const each of missing) {
    try {
      await mkdir(each, { mode: 0o700 })
    } catch (error) {
      // Another process may have made it meanwhile.
      if (codeOf(error) !== 'EEXIST' || !(await isFolder(each))) throw error
    }
    await syncFolder(dirname(each))
  }
}

/** A file is no folder, so making one there fails with its path. */
async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Lists a folder; empty when there is none. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return []
    throw error
  }
}

/** Tells whether the path is a folder; a symbolic link to a folder is not. */
export async function isOwnFolder(folder: string): Promise<boolean> {
  try {
    return (await lstat(folder)).isDirectory()
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
    throw error
  }
}

function draftOf(path: string): string {
  return join(dirname(path), `.${basename(path)}.${process.pid.toString(36)}${(drafts++).toString(36)}.draft`)
}

async function writeSynced(path: string, text: string | Uint8Array): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    if (process.geteuid?.() === 0) await giveToFolderUser(handle, dirname(path))
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** A note that root leaves in the data directory of another user, like that of `worker drain`, must be readable there. */
async function giveToFolderUser(handle: FileHandle, folder: string): Promise<void> {
  const { uid, gid } = await stat(folder)
  if (uid !== 0) await handle.chown(uid, gid)
}

export interface FileLoss {
  readonly is: 'removed' | 'replaced' | 'truncated'
  readonly reason: string
}

/**
 * OpenFile notices that a file which this process has open was removed, replaced or truncated.
 *
 * LMDB notices none of these. It goes on writing to a removed file, and reading a truncated one ends the process with
 * SIGBUS. The file never shrinks while it is open, so a smaller size means that it was truncated.
 */
export class OpenFile {
  readonly #path: string
  readonly #device: bigint
  readonly #inode: bigint
  #size: bigint

  /** Call it when the file is open: it must exist, and an open file keeps its number. */
  constructor(path: string) {
    const { dev, ino, size } = statSync(path, { bigint: true })
    this.#path = path
    this.#device = dev
    this.#inode = ino
    this.#size = size
  }

  /** Returns what happened to the file; undefined while the path still names the open file. */
  findLoss(): FileLoss | undefined {
    const stats = this.#stat()
    if (stats === 'unknown') return undefined
    if (stats === undefined) return this.#loss('removed')
    if (stats.dev !== this.#device || stats.ino !== this.#inode) return this.#loss('replaced')
    if (stats.size < this.#size) return this.#loss('truncated')
    this.#size = stats.size
    return undefined
  }

  /** A failure other than a missing file proves nothing about the open file. */
  #stat() {
    try {
      return statSync(this.#path, { bigint: true, throwIfNoEntry: false })
    } catch {
      return 'unknown'
    }
  }

  #loss(is: FileLoss['is']): FileLoss {
    return { is, reason: `${this.#path} was ${is} while it was in use` }
  }
}
