/**
 * The run repository: a bare repository outside the sandbox, into which git imports and checks the work of one run,
 * and from which it is pushed or bundled.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../../core/result.ts'
import { codeOf } from '../../../protocol/message-of.ts'
import type { Git } from '../git.ts'
import { createBareRepository, readRef, writeRef } from '../mirror/bare-repository.ts'
import type { MirrorCache, RemoteRepository } from '../mirror/mirror-cache.ts'

export interface RunRepositoryPorts {
  readonly git: Git
  readonly cache: MirrorCache
}

const LOCAL_MS_MAX = 60_000

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

async function isCommit(git: Git, folder: string, commit: string): Promise<boolean> {
  const ran = await git.run({
    args: ['cat-file', '-e', `${commit}^{commit}`],
    folder,
    timeoutMs: LOCAL_MS_MAX,
  })
  return ran.ok && ran.value.code === 0
}

// ---- importing the work --------------------------------------------------------------------------------------------

/** The only ref that a bundle may contain. */
export const OUT_REF = 'refs/switchyard/out'

const HEADER_BYTES_MAX = 256 * 1024
const PIECE_BYTES = 256 * 1024
const MISSING_CODES = new Set<unknown>(['ENOENT'])
const IMPORT_MS_MAX = 10 * 60_000

interface ImportedBundle {
  readonly head: string
  /** The path of the pack without the header, in the worker's own folder. */
  readonly pack: string
}

/**
 * Copies a git bundle out of a folder with untrusted content.
 *
 * The bundle must be a regular file without further hard links, of limited size, with exactly one ref (`OUT_REF`).
 * Links are not followed, and pipes do not block. The checked content is copied, so that a later change has no effect.
 * The pack is not checked here: `git index-pack` checks each object.
 *
 * undefined: no bundle exists, so nothing was changed.
 */
export async function importBundle(
  from: string,
  pack: string,
  bytesMax: number,
): Promise<Result<ImportedBundle | undefined>> {
  let source: FileHandle
  try {
    source = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    return MISSING_CODES.has(code)
      ? yes(undefined)
      : no('invalid', `what came out of the sandbox is no bundle (${code})`)
  }
  try {
    return await importOpened(source, pack, bytesMax)
  } finally {
    await source.close()
  }
}

async function importOpened(
  source: FileHandle,
  pack: string,
  bytesMax: number,
): Promise<Result<ImportedBundle>> {
  const stats = await source.stat()
  if (!stats.isFile() || stats.nlink !== 1) {
    return no(
      'invalid',
      'what came out of the sandbox is no plain file; the agent’s work stays in its sandbox',
    )
  }
  if (stats.size > bytesMax) return tooLarge(bytesMax)
  const header = await readHeader(source)
  if (!header.ok) return header
  const { head, length } = header.value
  if (!(await copyPack(source, length, pack, bytesMax))) return tooLarge(bytesMax)
  return yes({ head, pack })
}

/** Indexes the imported pack, and refuses work that does not descend from `base`. */
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

interface BundleHeader {
  readonly head: string
  readonly length: number
}

async function readHeader(source: FileHandle): Promise<Result<BundleHeader>> {
  const { buffer, bytesRead } = await source.read(Buffer.alloc(HEADER_BYTES_MAX), 0, HEADER_BYTES_MAX, 0)
  const text = buffer.toString('latin1', 0, bytesRead)
  const end = text.indexOf('\n\n')
  if (end < 0) return notOurBundle('it has no end of a header')
  const [signature, ...lines] = text.slice(0, end).split('\n')
  if (signature !== '# v2 git bundle') return notOurBundle('it is of another version')
  const refs = lines.filter((line) => !line.startsWith('-'))
  const [, head, name] = /^([0-9a-f]{40}) (\S+)$/.exec(refs[0] ?? '') ?? []
  if (refs.length !== 1 || head === undefined || name !== OUT_REF) {
    return notOurBundle(`it must hold ${OUT_REF} and nothing else`)
  }
  return yes({ head, length: end + 2 })
}

async function copyPack(source: FileHandle, from: number, to: string, bytesMax: number): Promise<boolean> {
  await rm(to, { recursive: true, force: true })
  const target = await open(to, 'wx', 0o600)
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    for (let at = from; at <= bytesMax; ) {
      const { bytesRead } = await source.read(piece, 0, PIECE_BYTES, at)
      if (bytesRead === 0) return true
      await target.writeFile(piece.subarray(0, bytesRead))
      at += bytesRead
    }
    return false
  } finally {
    await target.close()
  }
}

function notOurBundle(why: string) {
  return no('invalid', `what came out of the sandbox is no bundle of ours: ${why}`)
}

function tooLarge(bytesMax: number) {
  return no(
    'invalid',
    `the agent’s work has more than ${Math.floor(bytesMax / 1024 / 1024)} MiB; see what large files it added`,
  )
}

// ---- bundling the work ---------------------------------------------------------------------------------------------

export interface WorkBundle {
  readonly head: string
  readonly path: string
}

const BUNDLE_FILE = 'unpublished.bundle'
const BUNDLE_MS_MAX = 10 * 60_000

const refOf = (branch: string): string => `refs/heads/${branch}`

export const keepHead = (staging: string, branch: string, head: string): Promise<void> =>
  writeRef(runRepositoryPath(staging), refOf(branch), head)

export const forgetHead = (staging: string, branch: string): Promise<void> =>
  rm(join(runRepositoryPath(staging), refOf(branch)), { recursive: true, force: true })

/** The host has the bundle, or the work is published. */
export const deleteBundle = ({ staging }: { readonly staging: string }): Promise<void> =>
  rm(join(staging, BUNDLE_FILE), { force: true })

/**
 * Writes a bundle of collected work that may never be pushed: the commits of the run's branch beyond the commit at
 * which the work starts. People fetch the branch from it.
 *
 * `keepHead` names the collected commit in the run repository, and `forgetHead` precedes each collection. So the
 * branch is there only when the last collection has succeeded, and nothing of the bundle holds a secret of the run.
 *
 * undefined: no work is collected.
 */
export async function bundleWork(
  git: Git,
  { staging, branch, base }: { readonly staging: string; readonly branch: string; readonly base: string },
): Promise<Result<WorkBundle | undefined>> {
  const folder = runRepositoryPath(staging)
  const head = await readRef(folder, refOf(branch))
  if (head === undefined) return yes(undefined)
  const path = join(staging, BUNDLE_FILE)
  const bundled = await git.runChecked('bundling the work', {
    args: ['bundle', 'create', '--quiet', path, refOf(branch), `^${base}`],
    folder,
    isUntrusted: true,
    timeoutMs: BUNDLE_MS_MAX,
  })
  return bundled.ok ? yes({ head, path }) : bundled
}
