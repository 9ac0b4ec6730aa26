/**
 * `LocalRepositories` decides which folders of this machine git may use as a remote: those below the folders that the
 * worker was started with.
 *
 * Real paths are compared, so a symbolic link leads nowhere else. The worker's own folders are never allowed: an agent
 * writes to its sandbox, and git would obey a repository there.
 */
import type { Stats } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, relative } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'

export interface LocalRepositoryOptions {
  /** Absolute paths. */
  readonly allowedFolders: readonly string[]
  /** The worker's data directory, and the folder of its sandboxes. */
  readonly ownFolders: readonly string[]
}

export const NO_LOCAL_REPOSITORIES: LocalRepositoryOptions = { allowedFolders: [], ownFolders: [] }

/** Git looks for the repository of a path at these places, in this order. */
const GIT_DIR_SUFFIXES = ['/.git', '', '.git/.git', '.git']

export class LocalRepositories {
  readonly #options: LocalRepositoryOptions

  constructor(options: LocalRepositoryOptions) {
    this.#options = options
  }

  /** The real path of a folder that the worker may use. */
  async findFolder(path: string): Promise<Result<string>> {
    const real = await realPathOf(path)
    if (real !== undefined && (await this.#isAllowed(real))) return yes(real)
    if (real === undefined && (await this.#isAllowed(path)))
      return no('unknown', `${printable(path)} does not exist on this worker; correct remote or cloneUrl`)
    const absent = await this.#absentFolderOf(path)
    if (absent !== undefined)
      return no(
        'unknown',
        `the folder of the repositories, ${printable(absent)}, does not exist on this worker, or the worker may not pass to it; mount it, move it back, or give the worker access`,
      )
    return no(
      'forbidden',
      `${printable(path)} is not below a folder that this worker may use (${await this.#describeAllowed()}); start the worker, or the host for its own worker, with --local-repos and the folder of the repositories`,
    )
  }

  /** The real path of the git directory that git would open for the path. */
  async findGitDir(path: string): Promise<Result<string>> {
    const folder = await this.#findRepositoryFolder(path)
    if (!folder.ok) return folder
    // Git opens `X/.git` for `X`, and a linked worktree takes its configuration from elsewhere.
    const nested = await Promise.all(['.git', 'commondir'].map((name) => statOf(join(folder.value, name))))
    if (nested.every((found) => found === undefined)) return folder
    return no(
      'invalid',
      `${printable(path)} is a linked worktree or has another repository inside; name the main repository instead`,
    )
  }

  /** A sentence for each folder that allows nothing. */
  async findUselessFolders(): Promise<string[]> {
    const own = await this.#ownFolders()
    const checks = this.#options.allowedFolders.map(async (folder) => {
      const real = await realPathOf(folder)
      if (real === undefined) return `${folder} does not exist, or the worker may not pass to it`
      return overlapProblem(real, own)
    })
    return (await Promise.all(checks)).filter((problem) => problem !== undefined)
  }

  async #findRepositoryFolder(path: string): Promise<Result<string>> {
    for (const suffix of GIT_DIR_SUFFIXES) {
      const candidate = suffix.startsWith('/') ? join(path, suffix) : `${path.replace(/\/+$/, '')}${suffix}`
      const found = await statOf(candidate)
      if (found === undefined || (suffix === '' && !(await isGitDir(candidate)))) continue
      const allowed = await this.findFolder(candidate)
      if (!allowed.ok || found.isDirectory()) return allowed
      return no(
        'invalid',
        `${printable(candidate)} is a file that names another repository; name that repository instead`,
      )
    }
    const folder = await this.findFolder(path)
    return folder.ok
      ? no('unknown', `${printable(path)} is no git repository; correct remote or cloneUrl`)
      : folder
  }

  async #isAllowed(real: string): Promise<boolean> {
    const [allowed, own] = [await this.#allowedFolders(), await this.#ownFolders()]
    return allowed.some((folder) => isWithin(real, folder)) && !own.some((folder) => isWithin(real, folder))
  }

  /** Resolved for each question, because a folder may be mounted, moved or replaced while the worker runs. */
  async #allowedFolders(): Promise<string[]> {
    const own = await this.#ownFolders()
    const real = await Promise.all(this.#options.allowedFolders.map(realPathOf))
    return real
      .filter((folder) => folder !== undefined)
      .filter((folder) => overlapProblem(folder, own) === undefined)
  }

  /** The allowed folder of the path, where the folder itself is away, such as a disk that is not mounted. */
  async #absentFolderOf(path: string): Promise<string | undefined> {
    const above = this.#options.allowedFolders.filter((folder) => isWithin(path, folder))
    const real = await Promise.all(above.map(realPathOf))
    return above.find((_, at) => real[at] === undefined)
  }

  async #ownFolders(): Promise<string[]> {
    const { ownFolders } = this.#options
    return Promise.all(ownFolders.map(async (folder) => (await realPathOf(folder)) ?? folder))
  }

  async #describeAllowed(): Promise<string> {
    const allowed = await this.#allowedFolders()
    const useless = await this.findUselessFolders()
    const described =
      allowed.length === 0 ? 'none is allowed' : `allowed: ${allowed.map(printable).join(', ')}`
    return [described, ...useless.map(printable)].join('; ')
  }
}

function overlapProblem(folder: string, own: readonly string[]): string | undefined {
  for (const ownFolder of own) {
    if (isWithin(folder, ownFolder))
      return `${folder} lies in the worker's own folder ${ownFolder}, so nothing there is allowed; name another folder`
    if (isWithin(ownFolder, folder))
      return `${folder} contains the worker's own folder ${ownFolder}, so nothing there is allowed; name a folder that does not`
  }
  return undefined
}

function isWithin(path: string, folder: string): boolean {
  const steps = relative(folder, path)
  return steps === '' || (steps !== '..' && !steps.startsWith('../') && !isAbsolute(steps))
}

async function isGitDir(path: string): Promise<boolean> {
  return (await statOf(join(path, 'HEAD'))) !== undefined
}

function realPathOf(path: string): Promise<string | undefined> {
  return realpath(path).catch(() => undefined)
}

function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined)
}
