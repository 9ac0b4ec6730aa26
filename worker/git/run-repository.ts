/**
 * The clean bare repository of one run, outside: what came out of its sandbox goes in, object by object, and from
 * here it is pushed.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../core/result.ts'
import type { TakenBundle } from './bundle-import.ts'
import type { Git } from './git.ts'
import type { RepositoryCache, Wanted } from './mirror-cache.ts'

export interface DeskParts {
  readonly git: Git
  readonly cache: RepositoryCache
}

const LOCAL_MS_MAX = 60_000
const TAKE_MS_MAX = 10 * 60_000

/** The clean repository that work is pushed from. */
export function deskRepository(desk: string): string {
  return join(desk, 'work.git')
}

/**
 * Borrows the worker's copy of the repository, so that only what is new has to be kept; `also` that of another one,
 * which what comes in may be compared with.
 */
export async function cleanRepository(
  { git, cache }: DeskParts,
  wanted: Wanted,
  desk: string,
  base: string,
  also: Wanted = wanted,
): Promise<Result<string>> {
  const folder = deskRepository(desk)
  await rm(folder, { recursive: true, force: true })
  const made = await git.done('making a clean repository', {
    args: ['init', '--quiet', '--bare', '--template=', folder],
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!made.ok) return made
  await mkdir(join(folder, 'objects/info'), { recursive: true })
  const borrowed = new Set([wanted, also].map((one) => `${cache.folderOf(one)}/objects\n`))
  await writeFile(join(folder, 'objects/info/alternates'), [...borrowed].join(''))
  if (await isCommit(git, folder, base)) return yes(folder)
  // The copy was taken back in the meantime.
  const refreshed = await cache.use(wanted, undefined, async () => yes(undefined))
  if (!refreshed.ok) return refreshed
  if (await isCommit(git, folder, base)) return yes(folder)
  return no('gone', `the commit ${base} that the work started from is not on the code host any more`)
}

export async function receive(
  git: Git,
  folder: string,
  { head, pack }: TakenBundle,
  base: string,
): Promise<Result<void>> {
  const indexed = await git.done('taking the agent’s work', {
    // Strict: every new object is sound, and everything that it names is there.
    args: ['index-pack', '--stdin', '--fix-thin', '--strict'],
    folder,
    wary: true,
    input: pack,
    timeoutMs: TAKE_MS_MAX,
  })
  if (!indexed.ok) return no('invalid', indexed.refusal.message)
  if (!(await isCommit(git, folder, head))) return no('invalid', 'what came out of the sandbox is no commit')
  const descends = await git.run({
    args: ['merge-base', '--is-ancestor', base, head],
    folder,
    wary: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!descends.ok) return descends
  if (descends.value.code === 0) return yes(undefined)
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
