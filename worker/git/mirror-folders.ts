/**
 * The folders that copies of repositories are: their size and age, one in the place of another, and what a git that
 * was killed left in one.
 */
import { chmod, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

export interface MirrorFolder {
  readonly folder: string
  readonly bytes: number
  readonly usedAt: number
}

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

export async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true
}

/** Runs pass through it under other users' ids; they can't list it, and each is shown only its own. */
export async function makePassable(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  // A umask has no say in this.
  await chmod(folder, 0o711)
}

/** A crash between the two leaves no copy at all, which is made anew. */
export async function replaceFolder(draft: string, folder: string): Promise<void> {
  const old = `${folder}.old`
  await rm(old, { recursive: true, force: true })
  if (await isFolder(folder)) await rename(folder, old)
  await rename(draft, folder)
  await rm(old, { recursive: true, force: true })
}

/** What a git that was killed left in the way. Nobody else writes here, so no lock is anybody's. */
export async function deleteLeftovers(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => [])
  const leftovers = names.filter((name) => /\.lock$|^objects\/(.*\/)?tmp_[^/]*$/.test(name))
  for (const name of leftovers) await rm(join(folder, name), { force: true })
}
