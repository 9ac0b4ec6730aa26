/** Helpers for the folders of mirrors: measure them, make them accessible, replace them, delete leftovers in them. */
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
