/**
 * Replaces the content of a file that a person may be editing, and creates files whole.
 *
 * The new content goes to a hidden draft in the same folder, with the mode and, if permitted, the owner of the file.
 * The draft is synced and then renamed over the file. Right before that, the file is read again; a file that changed is
 * left alone. Only a write between that read and the rename can be lost.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, renameSync } from 'node:fs'
import { copyFile, type FileHandle, link, lstat, open, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../../protocol/message-of.ts'

const DRAFT_NAME = /^\.switchyard-[0-9a-z]+-[0-9a-z]+\.draft$/
/** No write takes this long, so an older draft is left from a crash. */
const STALE_DRAFT_MS = 10 * 60_000
const MODE_BITS = 0o7777n
/** The process's umask narrows it, as for any new file. */
const NEW_FILE_MODE = 0o666
/** Errors of file systems that have no hard links. */
const WITHOUT_LINKS = new Set<unknown>(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])
let draftCount = 0

export interface ExpectedFile {
  readonly bytes: Buffer
  readonly stats: Pick<BigIntStats, 'ino' | 'mode' | 'uid' | 'gid'>
}

/** Answers whether the file had the expected content and was replaced. */
export async function replaceIfUnchanged(
  path: string,
  expected: ExpectedFile,
  bytes: Uint8Array,
): Promise<boolean> {
  const { draft, handle } = await openDraft(dirname(path))
  try {
    await writeDraft(handle, bytes, expected.stats)
    if (!isUnchanged(path, expected)) {
      await rm(draft, { force: true })
      return false
    }
    // Check and rename run synchronously, so no other code of this process runs between them.
    renameSync(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
  return true
}

/** Creates a file with its whole content in one step. Answers false when the name is taken. */
export async function createWholeFile(path: string, bytes: Uint8Array): Promise<boolean> {
  const { draft, handle } = await openDraft(dirname(path), NEW_FILE_MODE)
  try {
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await placeDraft(draft, path)
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
  await syncFolder(dirname(path))
  return true
}

/** Unlike a rename, neither way replaces an existing file. */
async function placeDraft(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path)
  } catch (error) {
    if (!WITHOUT_LINKS.has(codeOf(error))) throw error
    await copyFile(draft, path, constants.COPYFILE_EXCL)
  }
}

/** Removes drafts that a crash left in the folder. */
export async function removeStaleDrafts(folder: string, now: number): Promise<void> {
  for (const name of (await readdir(folder)).filter((entry) => DRAFT_NAME.test(entry))) {
    const path = join(folder, name)
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isFile() === true && now - stats.mtimeMs > STALE_DRAFT_MS) await rm(path, { force: true })
  }
}

async function openDraft(
  folder: string,
  mode = 0o600,
): Promise<{ readonly draft: string; readonly handle: FileHandle }> {
  for (;;) {
    const draft = join(folder, `.switchyard-${process.pid.toString(36)}-${(draftCount++).toString(36)}.draft`)
    try {
      return { draft, handle: await open(draft, 'wx', mode) }
    } catch (error) {
      // The name was taken by an earlier process with the same pid; try the next one.
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
}

async function writeDraft(
  handle: FileHandle,
  bytes: Uint8Array,
  stats: ExpectedFile['stats'],
): Promise<void> {
  try {
    await handle.writeFile(bytes)
    await copyOwner(handle, stats)
    await handle.chmod(Number(stats.mode & MODE_BITS))
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Only root may change the owner. Otherwise the file becomes ours, as its folder permits. */
async function copyOwner(handle: FileHandle, { uid, gid }: ExpectedFile['stats']): Promise<void> {
  const own = await handle.stat({ bigint: true })
  if (own.uid === uid && own.gid === gid) return
  try {
    await handle.chown(Number(uid), Number(gid))
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error
  }
}

function isUnchanged(path: string, { bytes, stats }: ExpectedFile): boolean {
  let file: number
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ELOOP') return false
    throw error
  }
  try {
    if (fstatSync(file, { bigint: true }).ino !== stats.ino) return false
    const content = Buffer.allocUnsafe(bytes.length + 1)
    let filled = 0
    for (let read = -1; read !== 0 && filled < content.length; filled += read) {
      read = readSync(file, content, filled, content.length - filled, filled)
    }
    return bytes.equals(content.subarray(0, filled))
  } finally {
    closeSync(file)
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
