/**
 * Where sandboxes lie on the disk.
 *
 * Below the worker's own data directory, unless the worker is root and that directory is in a place that no other user
 * may pass through, such as /root: a sandbox runs as a user of its own, and a folder that its user cannot reach cannot
 * become its checkout. Then they lie below /var/lib, in a folder named after the data directory. Our own programs and
 * the Node that runs them have to be reachable, too, and are copied when they are not.
 */
import { createHash } from 'node:crypto'
import { chmod, chown, copyFile, cp, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export interface SandboxLocation {
  /** Sandboxes, caches, copies. */
  readonly folder: string
  readonly insidePrograms: string
  readonly node: { readonly program: string; readonly readOnlyPaths: readonly string[] }
}

export interface SandboxLocationOptions {
  readonly dataDir: string
  /** The worker is root: the group that all its sandboxes' users share. */
  readonly gid?: number
  readonly insidePrograms: string
  readonly nodeProgram: string
  /** Chosen by the person; below it each data directory has a folder of its own. */
  readonly chosenFolder?: string
}

const FALLBACK_FOLDER = '/var/lib/switchyard'
/** Inside every sandbox under the same name. */
const SYSTEM_FOLDER = '/usr/'

export async function chooseSandboxLocation(options: SandboxLocationOptions): Promise<SandboxLocation> {
  const { dataDir, gid, insidePrograms, nodeProgram, chosenFolder } = options
  const ownFolder = chosenFolder === undefined ? undefined : join(chosenFolder, folderNameFor(dataDir))
  if (gid === undefined) {
    const folder = ownFolder ?? dataDir
    await mkdir(folder, { recursive: true, mode: 0o700 })
    return { folder, insidePrograms, node: nodeLocation(nodeProgram) }
  }
  const folder =
    ownFolder ??
    ((await isPassable(dirname(dataDir))) ? dataDir : join(FALLBACK_FOLDER, folderNameFor(dataDir)))
  await makePassableForGroup(folder, gid)
  // Its name does not tell, and a person may want to know what can go.
  if (folder !== dataDir) await writeFile(join(folder, 'belongs-to'), `${dataDir}\n`, { mode: 0o600 })
  return {
    folder,
    insidePrograms: (await isPassable(insidePrograms))
      ? insidePrograms
      : await copyPrograms(insidePrograms, folder, gid),
    node: nodeLocation(
      (await isPassable(dirname(nodeProgram))) ? nodeProgram : await copyNode(nodeProgram, folder, gid),
    ),
  }
}

function nodeLocation(program: string): SandboxLocation['node'] {
  return { program, readOnlyPaths: program.startsWith(SYSTEM_FOLDER) ? [] : [program] }
}

/** May anybody pass through every folder of this path? */
async function isPassable(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    const { mode } = await stat(at)
    if ((mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** Of one data directory always the same, so that what is in it is found again. */
function folderNameFor(dataDir: string): string {
  return createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
}

/** To be passed through by sandboxes' users on the way to their own, and to be listed by nobody. */
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
