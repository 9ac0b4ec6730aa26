/**
 * Host folders that a sandbox gets to write to: made for one user, looked at before they are shown, taken away whole.
 *
 * bubblewrap takes folders by their path and walks it as the sandbox's user. Between our look and its walk nobody but
 * the worker could put anything else there: every folder on the way belongs to root or to the worker, and no one else
 * may write in it. So the look is enough, and a link anywhere on the way is refused by it.
 */
import { randomUUID } from 'node:crypto'
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, statSync } from 'node:fs'
import { chmod, chown, lstat, mkdir, opendir, rename, rmdir, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import type { SandboxUser } from './sandbox-process.ts'

const WRITE_BY_OTHERS = 0o022
/** Node has no name for it: an open file that is only pointed at, so no right to read it is needed. */
const O_PATH = 0o10000000
const STICKY = 0o1000
/** Far enough from the longest path that the kernel takes for one more name. */
const PATH_BYTES_MAX = 2_048
/** Folders in folders, each of which is held open meanwhile. */
const DEPTH_MAX = 64
const AT_ONCE_MAX = 32
/** Names that are no text come as they are. */
const AS_BYTES = 'buffer' as BufferEncoding
const SLASH = Buffer.from('/')

/** Owner-only, and the slot's. The folders above must let its user pass. */
export async function createOwnedFolder(folder: string, user: SandboxUser): Promise<Result<void>> {
  const isOwnUser = process.geteuid?.() === user.uid
  const impassable = isOwnUser ? undefined : findImpassableAncestor(folder, user)
  if (impassable !== undefined) {
    const fix = `keep the worker's data where other users may pass, such as below /var/lib, or: chmod o+x ${impassable}`
    return no('failed', `${impassable} can't be passed by the user that sandboxes run as; ${fix}`)
  }
  await mkdir(folder, { mode: 0o700 })
  if (!isOwnUser) await chown(folder, user.uid, user.gid)
  return yes(undefined)
}

/** The slot's folder and no other: not reached through a link, and in no folder that the slot could rename it in. */
export function findFolderProblem(path: string, { uid }: SandboxUser): string | undefined {
  try {
    const fd = openSync(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== path) return `${path} is reached through a link`
      if (fstatSync(fd).uid !== uid) return `${path} does not belong to the user of its sandbox, ${uid}`
    } finally {
      closeSync(fd)
    }
    return findParentProblem(dirname(path), uid)
  } catch (error) {
    return `${path} is no folder that can be shown: ${(error as Error).message}`
  }
}

export function findSocketProblem(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  return found?.isSocket() === true ? undefined : `${path} is no socket`
}

/**
 * Deletes all of it, whatever an agent made of it: folders that may not be entered, names that are no text, trees
 * deeper than a path can be long. Links are deleted, never followed. Only when nothing runs in it any more.
 */
export async function removeFolderTree(folder: string): Promise<void> {
  const top = Buffer.from(folder)
  const found = await lstat(top).catch(undefinedIfMissing)
  if (found === undefined) return
  if (found.isDirectory()) await removeTree(top, top)
  else await unlink(top)
}

/**
 * Neither what is remembered nor a path grows with what an agent made: names are read a few at a time, and what lies
 * deep is hung right below the top, where it is found again.
 */
async function removeTree(folder: Buffer, top: Buffer, depth = 0): Promise<void> {
  await chmod(folder, 0o700)
  for (;;) {
    const seen = await emptyFolder(folder, top, depth)
    const left = await rmdir(folder).catch((error: NodeJS.ErrnoException) => error)
    if (left === undefined) return
    if (seen === 0 || left.code !== 'ENOTEMPTY') throw left
  }
}

/** How many names were seen: what is hung below it while it is read may be seen the next time only. */
async function emptyFolder(folder: Buffer, top: Buffer, depth: number): Promise<number> {
  let seen = 0
  const files: Buffer[] = []
  for await (const entry of await opendir(folder, { encoding: AS_BYTES })) {
    seen += 1
    // As it was asked for, which the types don't know.
    const name = entry.name as unknown as Buffer
    const path = Buffer.concat([folder, SLASH, name])
    if (!entry.isDirectory()) files.push(path)
    else if (depth < DEPTH_MAX && path.length < PATH_BYTES_MAX) await removeTree(path, top, depth + 1)
    else await moveBelowTop(path, top)
    if (files.length >= AT_ONCE_MAX) await unlinkAll(files.splice(0))
  }
  await unlinkAll(files)
  return seen
}

async function unlinkAll(files: readonly Buffer[]): Promise<void> {
  await Promise.all(files.map((file) => unlink(file)))
}

/** Right below the top, under a name that no agent can have taken before. */
async function moveBelowTop(folder: Buffer, top: Buffer): Promise<void> {
  const target = Buffer.concat([top, SLASH, Buffer.from(`.deep-${randomUUID()}`)])
  // A folder changes its parent only when its owner may write in it.
  await chmod(folder, 0o700)
  await rename(folder, target)
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined
  throw error
}

function findParentProblem(parent: string, uid: number): string | undefined {
  const found = statSync(parent)
  const belongsToSandbox = found.uid === uid && uid !== process.geteuid?.()
  const isWritableByOthers = (found.mode & WRITE_BY_OTHERS) !== 0 && (found.mode & STICKY) === 0
  return belongsToSandbox || isWritableByOthers
    ? `${parent} can be written by others than the worker`
    : undefined
}

/** The first folder above that the slot's user can't pass. */
function findImpassableAncestor(folder: string, user: SandboxUser): string | undefined {
  const above = dirname(folder)
  if (above === folder) return undefined
  return findImpassableAncestor(above, user) ?? (canPass(above, user) ? undefined : above)
}

function canPass(folder: string, { uid, gid }: SandboxUser): boolean {
  const { uid: owner, gid: group, mode } = statSync(folder)
  const right = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001
  return (mode & right) !== 0
}
