/**
 * `createBareRepository` writes an empty bare repository, `writeRef` a reference in one that no other task uses.
 *
 * Both write git's files themselves, because a process of git would cost each run many times as much. The format is
 * the oldest one, with SHA-1 and loose references, whatever a newer git would choose.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

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
