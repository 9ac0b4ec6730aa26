/**
 * Creates, checks and deletes the host folders that a sandbox may write to, and assigns the user who owns them.
 *
 * bubblewrap resolves each folder by its path after the check. The check suffices, because nobody but the worker can
 * replace anything in between: every parent folder belongs to root or the worker, and is not writable by others. A path
 * through a symbolic link is refused.
 */
import { randomUUID } from 'node:crypto'
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, statSync } from 'node:fs'
import { chmod, chown, lstat, mkdir, opendir, rename, rmdir, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import type { SandboxUser } from './driver.ts'
import type { LocalMachine } from './local-machine.ts'

const WRITE_BY_OTHERS = 0o022
/** Missing in Node's constants. Opens a file as a reference only, without the need to read it. */
const O_PATH = 0o10000000
const STICKY = 0o1000
/** The kernel's limit is 4096; this leaves space for one more name. */
const PATH_BYTES_MAX = 2_048
/** Nested folders, each of which stays open during the deletion. */
const DEPTH_MAX = 64
const AT_ONCE_MAX = 32
/** Reads names as bytes, since they need not be valid UTF-8. */
const AS_BYTES = 'buffer' as BufferEncoding
const SLASH = Buffer.from('/')

/** Creates a folder with mode 0700 that belongs to the sandbox's user. The user must be able to pass all parents. */
export async function createOwnedFolder(folder: string, user: SandboxUser): Promise<Result<void>> {
  const isOwnUser = process.geteuid?.() === user.uid
  const impassable = isOwnUser ? undefined : findImpassableAncestor(folder, user)
  if (impassable !== undefined) {
    const fix = `keep the worker's data below a folder that other users may enter, such as /var/lib, or: chmod o+x ${impassable}`
    return no('failed', `the user that sandboxes run as cannot enter ${impassable}; ${fix}`)
  }
  await mkdir(folder, { mode: 0o700 })
  if (!isOwnUser) await chown(folder, user.uid, user.gid)
  return yes(undefined)
}

/**
 * Checks that the folder belongs to the sandbox's user, is not reached through a link, and that the user cannot rename
 * it in its parent.
 */
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
    return `${path} cannot be mounted: ${(error as Error).message}`
  }
}

export function findSocketProblem(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  return found?.isSocket() === true ? undefined : `${path} is not a socket`
}

/**
 * Deletes a whole tree, whatever an agent put there: folders without permissions, names that are not text, paths longer
 * than the kernel accepts. Links are deleted, never followed. Call it only when no process uses the tree any more.
 */
export async function removeFolderTree(folder: string): Promise<void> {
  const top = Buffer.from(folder)
  const found = await lstat(top).catch(undefinedIfMissing)
  if (found === undefined) return
  if (found.isDirectory()) await removeTree(top, top)
  else await unlink(top)
}

/**
 * Memory and path lengths stay bounded for any tree: names are read in small batches, and deep folders are moved right
 * below the top, where a later pass finds them.
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

/** Returns how many names the pass saw. Folders moved here during the pass may show up only in the next one. */
async function emptyFolder(folder: Buffer, top: Buffer, depth: number): Promise<number> {
  let seen = 0
  const files: Buffer[] = []
  for await (const entry of await opendir(folder, { encoding: AS_BYTES })) {
    seen += 1
    // A buffer, as requested by `encoding`; the types say string.
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

/** Moves a folder right below the top, under a random name that an agent cannot have used. */
async function moveBelowTop(folder: Buffer, top: Buffer): Promise<void> {
  const target = Buffer.concat([top, SLASH, Buffer.from(`.deep-${randomUUID()}`)])
  // Moving a folder to another parent requires write permission on the folder itself.
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
    ? `${parent} is writable by others than the worker`
    : undefined
}

/** Finds the topmost parent folder that the sandbox's user cannot enter. */
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

// ---- users --------------------------------------------------------------------------------------------------------

/** Above the ids that systemd assigns to services and containers, below 2^31, which some programs read as negative. */
export const SANDBOX_UID_BASE = 1_900_000_000
export const SANDBOX_USERS_MAX = 247_000_000
/** The group of all sandbox users. Folders that every sandbox may read, such as repository mirrors, belong to it. */
export const SANDBOX_GID = SANDBOX_UID_BASE

/**
 * Assigns the host user that a sandbox runs as.
 *
 * A root worker runs each sandbox under an unused user id of its own, so that a run cannot access another run's
 * processes, files or memory, and per-user limits count for one run only. Several workers on one machine do not know
 * each other, so each starts counting at a different number. A worker without root separates sandboxes by namespaces
 * only. A sandbox keeps its number while it is on disk, and the caller gives a number to one sandbox at a time.
 */
export function sandboxUserOf(
  number: number,
  { euid, egid }: Pick<LocalMachine, 'euid' | 'egid'>,
): SandboxUser {
  if (!Number.isInteger(number) || number < 0 || number >= SANDBOX_USERS_MAX)
    throw new Error(`there is no sandbox user ${number}`)
  if (euid !== 0) return { number, uid: euid, gid: egid }
  return { number, uid: SANDBOX_UID_BASE + number, gid: SANDBOX_GID }
}

/** Finds the first unused number at or after `from`. More numbers exist than any disk holds sandboxes. */
export function findFreeNumber(usedNumbers: Iterable<number>, from: number): number {
  const numbers = new Set(usedNumbers)
  let number = from
  while (numbers.has(number)) number = (number + 1) % SANDBOX_USERS_MAX
  return number
}

export function isSandboxUid(uid: number): boolean {
  return uid >= SANDBOX_UID_BASE && uid < SANDBOX_UID_BASE + SANDBOX_USERS_MAX
}
