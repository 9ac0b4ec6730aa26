/**
 * `updateBranchCopy` keeps, in the folder of a mirror, a bare repository with one branch of it, from which sandboxes
 * clone.
 *
 * A branch copy contains the objects that its branch and the tags on it reach, as packs, and no others but deleted tag
 * objects: when the branch was rewritten, a new copy replaces the old one. All users can read it. Call these functions
 * only while the mirror is in use; whatever replaces or deletes the mirror deletes its copies.
 */
import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createBareRepository } from './bare-repository.ts'
import type { Git } from './git.ts'
import { countPacks, deleteLeftovers, isFolder } from './mirror-folders.ts'
import { type MirrorReading, readMirror } from './read-mirror.ts'

const COPY_MS_MAX = 30 * 60_000
const LOCAL_MS_MAX = 60_000
/** Each new base commit adds a pack, and each checkout copies all of them. */
const PACKS_MAX = 10
/** Enough for some hundred thousand tags. */
const TAG_LIST_CHARS_MAX = 32 * 1024 * 1024
const DONE = { ok: true, value: undefined } as const

export function branchCopiesFolder(mirror: string): string {
  return join(mirror, 'branch-copies')
}

/** Returns the folder of the branch's copy, which then has the commit and the tags that the mirror has. */
export async function updateBranchCopy(
  git: Git,
  mirror: string,
  branch: string,
  signal?: AbortSignal,
): Promise<MirrorReading<string>> {
  const hash = createHash('sha256').update(branch).digest('hex').slice(0, 16)
  const folder = join(branchCopiesFolder(mirror), `${hash}.git`)
  if (await isFolder(folder)) {
    await deleteLeftovers(folder)
    const fetched = await updateCopy(git, folder, mirror, branch, signal)
    if (fetched.ok) return markUsed(git, folder)
    // A copy that is damaged, or whose branch was rewritten, is made anew.
    if (fetched.isDamaged !== true) {
      await deleteLeftovers(folder)
      return fetched
    }
    await rm(folder, { recursive: true, force: true })
  }
  const made = await createCopy(git, folder, mirror, branch, signal)
  return made.ok ? { ok: true, value: folder } : made
}

/** Deletes the copies that no checkout has used since then. */
export async function deleteUnusedCopies(mirror: string, usedSince: number): Promise<void> {
  const names = await readdir(branchCopiesFolder(mirror)).catch((): string[] => [])
  for (const name of names) {
    const folder = join(branchCopiesFolder(mirror), name)
    const stats = await stat(folder).catch(() => undefined)
    if (stats !== undefined && stats.mtimeMs < usedSince) await rm(folder, { recursive: true, force: true })
  }
}

async function updateCopy(
  git: Git,
  folder: string,
  mirror: string,
  branch: string,
  signal: AbortSignal | undefined,
): Promise<MirrorReading<void>> {
  const deleted = await deleteStaleTags(git, folder, mirror, signal)
  return deleted.ok ? fetchBranch(git, folder, mirror, branch, signal) : deleted
}

/** Git adds no tag that exists, and deletes none. The next fetch adds those that moved on the branch. */
async function deleteStaleTags(
  git: Git,
  copy: string,
  mirror: string,
  signal: AbortSignal | undefined,
): Promise<MirrorReading<void>> {
  const copied = await listTags(git, copy, signal)
  if (!copied.ok) return copied
  const current = await listTags(git, mirror, signal)
  if (!current.ok) return current
  const stale = [...copied.value].filter((tag) => !current.value.has(tag))
  if (stale.length === 0) return DONE
  const input = join(copy, 'stale-tags')
  await writeFile(input, stale.map((tag) => `delete ${tag.slice(tag.indexOf(' ') + 1)}\n`).join(''))
  const deleted = await readMirror(git, 'deleting old tags', {
    args: ['update-ref', '--no-deref', '--stdin'],
    folder: copy,
    input,
    timeoutMs: LOCAL_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  await rm(input, { force: true })
  return deleted.ok ? DONE : deleted
}

/** Returns each tag as its object and its full name. */
async function listTags(
  git: Git,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<MirrorReading<ReadonlySet<string>>> {
  const listed = await readMirror(git, 'reading the tags', {
    args: ['for-each-ref', '--format=%(objectname) %(refname)', 'refs/tags'],
    folder,
    outputCharsMax: TAG_LIST_CHARS_MAX,
    timeoutMs: LOCAL_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  if (!listed.ok) return listed
  return { ok: true, value: new Set(listed.value.output.split('\n').filter((line) => line !== '')) }
}

async function createCopy(
  git: Git,
  folder: string,
  mirror: string,
  branch: string,
  signal: AbortSignal | undefined,
): Promise<MirrorReading<void>> {
  const draft = `${folder}.new`
  await mkdir(branchCopiesFolder(mirror), { recursive: true })
  // Sandbox users must pass, whatever the umask is.
  await chmod(branchCopiesFolder(mirror), 0o755)
  await rm(draft, { recursive: true, force: true })
  await createBareRepository(draft, { isShared: true, branch })
  await packHistory(git, draft, mirror, branch, signal)
  const fetched = await fetchBranch(git, draft, mirror, branch, signal)
  if (fetched.ok) await rename(draft, folder)
  else await rm(draft, { recursive: true, force: true })
  return fetched
}

/** Writes the branch's history as one pack, much faster than the fetch that follows could; a failure costs only time. */
async function packHistory(
  git: Git,
  copy: string,
  mirror: string,
  branch: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const input = join(copy, 'packed-branch')
  await writeFile(input, `refs/heads/${branch}\n`)
  await git.run({
    args: ['pack-objects', '--quiet', '--revs', '--delta-base-offset', join(copy, 'objects/pack/pack')],
    folder: mirror,
    input,
    timeoutMs: COPY_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  await rm(input, { force: true })
}

/** Without force, so that a rewritten branch is refused. Git adds the tags that point to commits of the branch. */
async function fetchBranch(
  git: Git,
  copy: string,
  mirror: string,
  branch: string,
  signal: AbortSignal | undefined,
): Promise<MirrorReading<void>> {
  const ref = `refs/heads/${branch}`
  const fetched = await readMirror(git, `copying ${branch}`, {
    args: ['fetch', '--quiet', '--no-write-fetch-head', '--no-auto-maintenance', mirror, `${ref}:${ref}`],
    folder: copy,
    ownRemote: mirror,
    timeoutMs: COPY_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  return fetched.ok ? DONE : fetched
}

async function markUsed(git: Git, folder: string): Promise<MirrorReading<string>> {
  // Merges small packs only, so that a large history is not written again. A failure only costs time.
  if ((await countPacks(folder)) > PACKS_MAX)
    await git.run({ args: ['repack', '-q', '-d', '--geometric=2'], folder, timeoutMs: COPY_MS_MAX })
  const now = new Date()
  await utimes(folder, now, now)
  return { ok: true, value: folder }
}
