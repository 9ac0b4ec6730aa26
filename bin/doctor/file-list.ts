/** Lists the files below a folder with mode, size and time, folder by folder, and counts what exceeds the limit. */
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BUNDLE_FILES_LISTED_MAX } from '../../protocol/limits.ts'

export async function listFiles(root: string): Promise<string> {
  const lines: string[] = []
  const folders = ['']
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => [])
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (lines.length >= BUNDLE_FILES_LISTED_MAX) return `${lines.join('\n')}\nand more\n`
      const path = join(folder, entry.name)
      lines.push(await describe(root, path))
      if (entry.isDirectory()) folders.push(path)
    }
  }
  return `${lines.join('\n')}\n`
}

async function describe(root: string, path: string): Promise<string> {
  const stats = await lstat(join(root, path)).catch(() => undefined)
  if (stats === undefined) return `gone ${path}`
  const { mode, size, mtime } = stats
  return `${mode.toString(8).padStart(6, '0')} ${String(size).padStart(12)} ${mtime.toISOString()} ${path}`
}
