/**
 * The run repository: a bare repository outside the sandbox, into which git imports and checks the work of one run, and
 * from which it is pushed.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import { createBareRepository } from './bare-repository.ts'
import type { ImportedBundle } from './bundle-import.ts'
import type { Git } from './git.ts'
import type { MirrorCache, RemoteRepository } from './mirror-cache.ts'

export interface RunRepositoryPorts {
  readonly git: Git
  readonly cache: MirrorCache
}

const LOCAL_MS_MAX = 60_000
const IMPORT_MS_MAX = 10 * 60_000

/** The path of the run repository in the staging folder. */
export function runRepositoryPath(staging: string): string {
  return join(staging, 'work.git')
}

/**
 * Creates an empty run repository that borrows objects from the repository's mirror, so that it stores only new ones.
 * The repository also borrows from the mirror `alternate`: the work of a follow-up is compared with a fork's branch.
 */
export async function createRunRepository(
  { git, cache }: RunRepositoryPorts,
  repository: RemoteRepository,
  staging: string,
  base: string,
  alternate: RemoteRepository = repository,
): Promise<Result<string>> {
  const folder = runRepositoryPath(staging)
  const mirrors = [repository, alternate].map((entry) => cache.folderOf(entry))
  await createBorrowingRepository(folder, mirrors)
  if (await isCommit(git, folder, base)) return yes(folder)
  // The mirror was deleted meanwhile: fetch it again.
  const refreshed = await cache.use(repository, undefined, async () => yes(undefined))
  if (!refreshed.ok) return refreshed
  if (await isCommit(git, folder, base)) return yes(folder)
  return no('gone', `the commit ${base} that the work started from is not on the code host any more`)
}

/** Creates an empty bare repository that borrows the objects of these mirrors. */
export async function createBorrowingRepository(folder: string, mirrors: readonly string[]): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await createBareRepository(folder)
  const borrowed = new Set(mirrors.map((mirror) => `${mirror}/objects\n`))
  await writeFile(join(folder, 'objects/info/alternates'), [...borrowed].join(''))
}

export async function importPack(
  git: Git,
  folder: string,
  { head, pack }: ImportedBundle,
  base: string,
): Promise<Result<void>> {
  const indexed = await git.runChecked('taking the agent’s work', {
    // `--strict` checks each new object and that everything it refers to exists.
    args: ['index-pack', '--stdin', '--fix-thin', '--strict'],
    folder,
    isUntrusted: true,
    input: pack,
    timeoutMs: IMPORT_MS_MAX,
  })
  if (!indexed.ok) return no('invalid', indexed.refusal.message)
  const descends = await git.run({
    args: ['merge-base', '--is-ancestor', base, head],
    folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!descends.ok) return descends
  if (descends.value.code === 0) return yes(undefined)
  if (!(await isCommit(git, folder, head))) return no('invalid', 'what came out of the sandbox is no commit')
  return no(
    'conflict',
    `the work does not go on from ${base.slice(0, 12)}, where it started; its history was replaced, so it stays in the sandbox`,
  )
}

async function isCommit(git: Git, folder: string, commit: string): Promise<boolean> {
  const ran = await git.run({
    args: ['cat-file', '-e', `${commit}^{commit}`],
    folder,
    timeoutMs: LOCAL_MS_MAX,
  })
  return ran.ok && ran.value.code === 0
}
