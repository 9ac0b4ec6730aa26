/**
 * `renewHome` replaces the home folder of a retained sandbox by a new one, into which only the agent's transcripts
 * move, and checkouts that a follow-up has set aside. `makeFolders` makes the folders of a new sandbox.
 *
 * An earlier session may have left settings in its home that act on their own: a shell's start files, settings of git
 * or of the agent. So nothing else is carried over. No process may run in the sandbox meanwhile. An interrupted
 * renewal loses no transcript; the next one completes it.
 */
import { chmod, chown, lstat, mkdir, opendir, readdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { TranscriptFiles } from '../../agents/agent.ts'
import type { SandboxFolders } from './sandboxes.ts'

export interface HomeRenewal {
  /** Host path of the home folder. */
  readonly home: string
  /** The sandbox's user when it is not the worker's own. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  /** Absent: the agent has none that a later session needs. */
  readonly transcripts: TranscriptFiles | undefined
  /** Takes a folder with untrusted content away. */
  readonly discard: (folder: string) => Promise<unknown>
}

/** A follow-up moves a checkout that it cannot use into such a folder, where nothing acts by itself. */
const SET_ASIDE = /^before-follow-up-\d+\.\w+$/
/** Files that are carried over, of the folder as a whole. */
const TRANSCRIPTS_MAX = 5_000
/** Entries of one folder that are looked at. */
const NAMES_MAX = 10_000
const DEPTH_MAX = 4

export async function renewHome(renewal: HomeRenewal): Promise<void> {
  const { home, transcripts, discard } = renewal
  // No sandbox ever shows this folder before it is complete, so its content can be trusted.
  const next = `${home}.new`
  await makeOwnFolder(renewal, next)
  if (await isFolder(home)) {
    if (transcripts !== undefined) await moveTranscripts(renewal, next, transcripts)
    await moveCheckoutsSetAside(home, next)
    await discard(home)
  }
  await rename(next, home)
}

async function moveTranscripts(
  renewal: HomeRenewal,
  next: string,
  { folder, isTranscript }: TranscriptFiles,
): Promise<void> {
  const top = await findFolder(renewal.home, folder)
  if (top === undefined) return
  let left = TRANSCRIPTS_MAX
  for await (const path of listFiles(top)) {
    if (!isTranscript(path)) continue
    if (left === 0) return
    left -= 1
    const [from, to] = [join(top, path), join(next, folder, path)]
    await makeFoldersBelow(renewal, next, dirname(join(folder, path)))
    await chmod(from, 0o600)
    await rename(from, to)
  }
}

async function moveCheckoutsSetAside(home: string, next: string): Promise<void> {
  for (const entry of await readdir(home, { withFileTypes: true })) {
    if (entry.isDirectory() && SET_ASIDE.test(entry.name))
      await rename(join(home, entry.name), join(next, entry.name))
  }
}

/** Returns undefined when the path does not exist or leads through a link. */
async function findFolder(home: string, folder: string): Promise<string | undefined> {
  let path = home
  for (const name of folder.split('/')) {
    path = join(path, name)
    if (!(await isFolder(path))) return undefined
  }
  return path
}

async function* listFiles(top: string, below = '', depth = 0): AsyncGenerator<string> {
  let seen = 0
  for await (const entry of await opendir(join(top, below))) {
    seen += 1
    if (seen > NAMES_MAX) return
    const path = join(below, entry.name)
    if (entry.isDirectory() && depth < DEPTH_MAX) yield* listFiles(top, path, depth + 1)
    else if (entry.isFile() && (await hasOneName(join(top, path)))) yield path
  }
}

/** A second hard link could be a file that the next session must not have. A name that is no text is not found. */
async function hasOneName(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(ignoreMissing)
  return stats?.isFile() === true && stats.nlink === 1
}

async function isFolder(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(ignoreMissing)
  return stats?.isDirectory() ?? false
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

async function makeFoldersBelow(renewal: HomeRenewal, next: string, folder: string): Promise<void> {
  let path = next
  for (const name of folder.split('/')) {
    path = join(path, name)
    await makeOwnFolder(renewal, path)
  }
}

async function makeOwnFolder({ owner }: Pick<HomeRenewal, 'owner'>, path: string): Promise<void> {
  const made = await mkdir(path, { mode: 0o700 }).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
  if (made && owner !== undefined) await chown(path, owner.uid, owner.gid)
}

// ---- a new sandbox -----------------------------------------------------------------------------------------------

/** Makes the folders of a new sandbox; its user owns those that it sees. */
export async function makeFolders(folders: SandboxFolders, owner: HomeRenewal['owner']): Promise<void> {
  await mkdir(folders.root, { mode: 0o700 })
  // The sandbox user must pass through to its own folders; the other folders in it have mode 0700.
  if (owner !== undefined) {
    await chown(folders.root, 0, owner.gid)
    await chmod(folders.root, 0o710)
  }
  await mkdir(folders.staging, { mode: 0o700 })
  const { work, home, out, exchange } = folders
  for (const path of [work, home, out, exchange, join(out, 'artifacts')]) await makeOwnFolder({ owner }, path)
}
