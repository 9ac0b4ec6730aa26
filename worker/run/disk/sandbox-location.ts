/**
 * `chooseSandboxLocation` decides which folder holds the sandboxes of a worker.
 *
 * The default is the worker's data directory. A worker that runs as root gives each sandbox its own user, and that user
 * must be able to reach the folder: if other users cannot enter the data directory (as below /root), the sandboxes lie
 * below /var/lib/switchyard. Programs and Node must be reachable too, and are copied if they are not.
 */
import { createHash } from 'node:crypto'
import {
  chmod,
  chown,
  copyFile,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { codeOf } from '../../../protocol/message-of.ts'
import type { SandboxMount } from '../../sandbox/driver.ts'
import { NODE_INSIDE } from '../../sandbox/inside-paths.ts'

export interface SandboxLocation {
  /** Holds sandboxes, repository mirrors and copied programs. */
  readonly folder: string
  readonly insidePrograms: string
  readonly node: NodeInside
}

export interface NodeInside {
  /** The path inside a sandbox, which tells nothing about the machine. */
  readonly program: string
  readonly mounts: readonly SandboxMount[]
}

export interface SandboxLocationOptions {
  readonly dataDir: string
  /** The group that all sandbox users share; present only if the worker runs as root. */
  readonly gid?: number
  readonly insidePrograms: string
  readonly nodeProgram: string
  /** Configured with `--sandbox-dir`; each data directory gets its own folder below it. */
  readonly chosenFolder?: string
}

export const FALLBACK_FOLDER = '/var/lib/switchyard'
/** Every sandbox shows this folder under the same path. */
const SYSTEM_FOLDER = '/usr/'

export async function chooseSandboxLocation(options: SandboxLocationOptions): Promise<SandboxLocation> {
  const { dataDir, gid, insidePrograms, nodeProgram, chosenFolder } = options
  const ownFolder = chosenFolder === undefined ? undefined : join(chosenFolder, folderNameFor(dataDir))
  if (gid === undefined) {
    const folder = ownFolder ?? dataDir
    await mkdir(folder, { recursive: true, mode: 0o700 })
    return { folder, insidePrograms, node: nodeInside(nodeProgram) }
  }
  const folder = ownFolder ?? (await findRootFolder(dataDir))
  await makePassableForGroup(folder, gid)
  if (folder !== dataDir) await writeRecord(folder, dataDir)
  return {
    folder,
    insidePrograms: (await isPassable(insidePrograms))
      ? insidePrograms
      : await copyPrograms(insidePrograms, folder, gid),
    node: nodeInside(
      (await isPassable(dirname(nodeProgram))) ? nodeProgram : await copyNode(nodeProgram, folder, gid),
    ),
  }
}

/** The folder in which a worker of root keeps the sandboxes of this data directory, unless another one is named. */
export const findRootFolder = async (dataDir: string): Promise<string> =>
  (await isPassable(dirname(dataDir))) ? dataDir : join(FALLBACK_FOLDER, folderNameFor(dataDir))

/** The folder's name is a hash; this file tells people and later workers which data directory it belongs to. */
export const OWNER_FILE = 'belongs-to'

/** The second line is the file system of the data directory, by which an unmounted disk differs from a deletion. */
async function writeRecord(folder: string, dataDir: string): Promise<void> {
  const device = (await stat(dirname(dataDir))).dev
  await writeFile(join(folder, OWNER_FILE), `${dataDir}\n${device}\n`, { mode: 0o600 })
}

export function nodeInside(program: string): NodeInside {
  if (program.startsWith(SYSTEM_FOLDER)) return { program, mounts: [] }
  return { program: NODE_INSIDE, mounts: [{ from: program, to: NODE_INSIDE }] }
}

/** Whether every user may enter every folder of this path. */
async function isPassable(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    const { mode } = await stat(at)
    if ((mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** The same data directory always gets the same name, so that its sandboxes are found again. */
export function folderNameFor(dataDir: string): string {
  return createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
}

/** Sandbox users may pass through the folder on the way to their own folder; none of them may list it. */
async function makePassableForGroup(folder: string, gid: number): Promise<void> {
  const above = dirname(folder)
  const made = await mkdir(above, { recursive: true, mode: 0o700 })
  if (made !== undefined)
    for (let at = above; at.length >= made.length; at = dirname(at)) await chmod(at, 0o711)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chown(folder, 0, gid)
  await chmod(folder, 0o710)
}

// ---- copies ------------------------------------------------------------------------------------------------------

async function copyPrograms(from: string, folder: string, gid: number): Promise<string> {
  const to = join(folder, 'inside')
  await rm(`${to}.new`, { recursive: true, force: true })
  await cp(from, `${to}.new`, { recursive: true, dereference: true })
  await chown(`${to}.new`, 0, gid)
  await chmod(`${to}.new`, 0o750)
  await rm(to, { recursive: true, force: true })
  await rename(`${to}.new`, to)
  return to
}

async function copyNode(program: string, folder: string, gid: number): Promise<string> {
  const to = join(folder, 'node')
  const [original, copy] = await Promise.all([stat(program), stat(to).catch(() => undefined)])
  if (copy?.size === original.size && copy.mtimeMs >= original.mtimeMs) return to
  await copyFile(program, `${to}.new`)
  await chown(`${to}.new`, 0, gid)
  await chmod(`${to}.new`, 0o750)
  await rename(`${to}.new`, to)
  return to
}

// ---- abandoned locations -------------------------------------------------------------------------------------------

export interface AbandonedLocation {
  readonly folder: string
  readonly dataDir: string
}

/** A person may move a data directory away and back within this time. */
export const ABANDONED_AFTER_MS = 24 * 60 * 60_000
const FOLDER_NAME = /^[0-9a-f]{16}$/

/**
 * Finds the sandbox folders outside of data directories whose data directory was deleted.
 *
 * A folder counts only when its record proves the deletion: the data directory is missing, and the nearest folder above it
 * that exists lies on the file system that held it. An unmounted or unreadable disk proves nothing. A record of an earlier
 * version names no file system; then the folder right above must exist and not be empty, as a mount point would be.
 *
 * @param parent the folder that holds one sandbox folder for each data directory
 */
export async function findAbandonedLocations(parent: string, now: number): Promise<AbandonedLocation[]> {
  const names = await readdir(parent).catch(() => [])
  const found = await Promise.all(
    names.filter((name) => FOLDER_NAME.test(name)).map((name) => judge(join(parent, name), name, now)),
  )
  return found.flatMap((location) => location ?? [])
}

async function judge(folder: string, name: string, now: number): Promise<AbandonedLocation | undefined> {
  try {
    const record = join(folder, OWNER_FILE)
    const [dataDir = '', device] = (await readFile(record, 'utf8')).split('\n')
    const { mtimeMs } = await stat(record)
    if (!isAbsolute(dataDir) || folderNameFor(dataDir) !== name) return undefined
    if (now - mtimeMs < ABANDONED_AFTER_MS) return undefined
    return (await isDeleted(dataDir, device)) ? { folder, dataDir } : undefined
  } catch {
    // A record that can't be read proves nothing.
    return undefined
  }
}

async function isDeleted(dataDir: string, device: string | undefined): Promise<boolean> {
  if (!(await isMissing(dataDir))) return false
  const parent = dirname(dataDir)
  const above = await findExisting(parent)
  const { dev } = await stat(above)
  if (device !== undefined && device !== '') return device === String(dev)
  return above === parent && (await readdir(parent)).length > 0
}

/** Throws on any error that does not prove that nothing is there. */
async function isMissing(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return false
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}

async function findExisting(path: string): Promise<string> {
  return (await isMissing(path)) ? findExisting(dirname(path)) : path
}
