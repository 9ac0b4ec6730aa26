/**
 * `createBareRepository` writes an empty bare repository; `writeRef` writes and `readRef` reads a reference in one
 * that no other task uses. The other functions measure, replace and clean the folders of mirrors.
 *
 * They use git's files themselves, because a process of git would cost each run many times as much. The format is the
 * oldest one, with SHA-1 and references in files, whatever a newer git would choose.
 */
import { chmod, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../../protocol/message-of.ts'

export interface BareRepositoryOptions {
  /** Whether all users may read it, whatever the umask is; git then keeps it so. */
  readonly isShared?: boolean
  readonly branch?: string
}

const FOLDERS: readonly string[] = [
  ...['', 'objects', 'objects/info', 'objects/pack'],
  ...['refs', 'refs/heads', 'refs/tags'],
]
const SETTINGS = ['repositoryformatversion = 0', 'filemode = true', 'bare = true']

/** The folder must not exist, except when it is empty. */
export async function createBareRepository(
  folder: string,
  { isShared = false, branch = 'main' }: BareRepositoryOptions = {},
): Promise<void> {
  const settings = isShared ? [...SETTINGS, 'sharedRepository = 0644'] : SETTINGS
  const files = {
    config: `[core]\n${settings.map((setting) => `\t${setting}\n`).join('')}`,
    HEAD: `ref: refs/heads/${branch}\n`,
  }
  for (const name of FOLDERS) {
    const path = join(folder, name)
    await mkdir(path, { recursive: true })
    if (isShared) await chmod(path, 0o755)
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    await writeFile(path, text)
    if (isShared) await chmod(path, 0o644)
  }
}

/** The commit must exist. */
export async function writeRef(repository: string, ref: string, commit: string): Promise<void> {
  const path = join(repository, ref)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, `${commit}\n`)
}

/**
 * Returns the object of a reference. undefined: there is none, or it names another. Loose references replace packed
 * ones.
 */
export async function readRef(repository: string, ref: string): Promise<string | undefined> {
  const loose = await readText(join(repository, ref))
  if (loose !== undefined) return OBJECT.exec(loose)?.[1]
  const packed = (await readText(join(repository, 'packed-refs'))) ?? ''
  const end = packed.indexOf(` ${ref}\n`)
  return end === -1 ? undefined : OBJECT.exec(packed.slice(Math.max(0, end - 40), end))?.[1]
}

const OBJECT = /^([0-9a-f]{40})\s*$/

/** Returns undefined for a file that does not exist. */
async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (MISSING_CODES.has(codeOf(error))) return undefined
    throw error
  }
}

/** A folder of that name holds references of other branches, and a file in the path is one of them. */
const MISSING_CODES: ReadonlySet<string | number | undefined> = new Set([
  'ENOENT',
  'EISDIR',
  'ENOTDIR',
  'ENAMETOOLONG',
])

// ---- the folders of mirrors ----------------------------------------------------------------------------------------

export interface MirrorFolder {
  readonly folder: string
  readonly bytes: number
  readonly usedAt: number
}

/** undefined: there is no mirror. */
export async function measureMirror(folder: string): Promise<MirrorFolder | undefined> {
  const stats = await stat(folder).catch(() => undefined)
  if (stats?.isDirectory() !== true) return undefined
  return { folder, bytes: await fileBytesIn(folder), usedAt: stats.mtimeMs }
}

async function fileBytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const sizes = entries.map(async (entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return fileBytesIn(path)
    return (await stat(path).catch(() => undefined))?.size ?? 0
  })
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

export async function countPacks(repository: string): Promise<number> {
  const names = await readdir(join(repository, 'objects/pack')).catch((): string[] => [])
  return names.filter((name) => name.endsWith('.pack')).length
}

/** Estimates the number of loose objects as git does: from one of the 256 folders that share them evenly. */
export async function estimateLooseObjects(repository: string): Promise<number> {
  const names = await readdir(join(repository, 'objects/17')).catch((): string[] => [])
  return names.length * 256
}

export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true
}

/** Sandbox users may pass through the folder but not list it. */
export async function makePassable(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  // `mkdir` applies the umask, `chmod` does not.
  await chmod(folder, 0o711)
}

/** A crash between the two renames leaves no mirror, so the next use creates it again. */
export async function replaceFolder(draft: string, folder: string): Promise<void> {
  const old = `${folder}.old`
  await rm(old, { recursive: true, force: true })
  if (await isFolder(folder)) await rename(folder, old)
  await rename(draft, folder)
  await rm(old, { recursive: true, force: true })
}

/** Deletes locks and temporary files of a killed git. Mirrors are used one task at a time, so no lock is in use. */
export async function deleteLeftovers(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => [])
  const leftovers = names.filter((name) => /\.lock$|^objects\/(.*\/)?tmp_[^/]*$/.test(name))
  for (const name of leftovers) await rm(join(folder, name), { force: true })
}
