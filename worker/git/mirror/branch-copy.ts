/**
 * `updateBranchCopy` keeps, in the folder of a mirror, a bare repository with one branch of it, from which sandboxes
 * clone.
 *
 * A branch copy contains the objects that its branch and the tags on it reach, as packs, and no others but deleted tag
 * objects: when the branch was rewritten, a new copy replaces the old one. All users can read it. A copy records the
 * references that the mirror and the copy had when it was last fetched; while both still have them, it is not fetched
 * again. Call these functions only while the mirror is in use; whatever replaces or deletes the mirror deletes its
 * copies.
 */
import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Result } from '../../../core/result.ts'
import type { Git, GitCall, GitResult } from '../git.ts'
import { explainEnd } from '../git-errors.ts'
import { countPacks, createBareRepository, deleteLeftovers, isFolder } from './bare-repository.ts'

const COPY_MS_MAX = 30 * 60_000
const LOCAL_MS_MAX = 60_000
/** Each new base commit adds a pack, and each checkout copies all of them. */
const PACKS_MAX = 10
/** Enough for some hundred thousand tags. */
const REF_LIST_CHARS_MAX = 32 * 1024 * 1024
/** In the folder of a copy: a hash of all references of both. */
const RECORD_FILE = 'copied'
const DONE = { ok: true, value: undefined } as const

export function branchCopiesFolder(mirror: string): string {
  return join(mirror, 'branch-copies')
}

export interface BranchCopy {
  readonly folder: string
  /** Whether git has just made it. Otherwise damage of its objects may show only when they are read. */
  readonly isNew: boolean
}

export interface BranchCopyRequest {
  readonly mirror: string
  readonly branch: string
  readonly signal?: AbortSignal
}

/** Returns the branch's copy, which then has the commit and the tags that the mirror has. */
export async function updateBranchCopy(
  git: Git,
  { mirror, branch, signal }: BranchCopyRequest,
): Promise<MirrorReading<BranchCopy>> {
  const hash = createHash('sha256').update(branch).digest('hex').slice(0, 16)
  const folder = join(branchCopiesFolder(mirror), `${hash}.git`)
  const isThere = await isFolder(folder)
  const [listed, copied] = await Promise.all([
    listRefs(git, mirror, [branchRef(branch), TAGS], signal),
    isThere ? listRefs(git, folder, [], signal) : undefined,
  ])
  if (!listed.ok) return listed
  const source = { mirror, branch, signal, refs: listed.value }
  if (copied !== undefined) {
    const refreshed = await refreshCopy(git, folder, source, copied)
    // A copy that is damaged, or whose branch was rewritten, is made anew.
    if (refreshed.isDamaged !== true) return refreshed
    await rm(folder, { recursive: true, force: true })
  }
  const made = await createCopy(git, folder, source)
  return made.ok ? { ok: true, value: { folder, isNew: true } } : made
}

async function refreshCopy(
  git: Git,
  folder: string,
  source: CopySource,
  copied: MirrorReading<readonly string[]>,
): Promise<MirrorReading<BranchCopy>> {
  if (!copied.ok || !(await isRecorded(folder, source, copied.value))) {
    await deleteLeftovers(folder)
    const updated = copied.ok ? await updateCopy(git, folder, source, copied.value) : copied
    if (!updated.ok) {
      if (updated.isDamaged !== true) await deleteLeftovers(folder)
      return updated
    }
  }
  await markUsed(git, folder)
  return { ok: true, value: { folder, isNew: false } }
}

/** The next update makes the copy anew. */
export async function deleteBranchCopy({ folder }: BranchCopy): Promise<void> {
  await rm(folder, { recursive: true, force: true })
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

// ---- what is copied ------------------------------------------------------------------------------------------------

interface CopySource {
  readonly mirror: string
  readonly branch: string
  readonly signal: AbortSignal | undefined
  /** The branch and all tags of the mirror, each as its object and its full name. */
  readonly refs: readonly string[]
}

const TAGS = 'refs/tags'
const branchRef = (branch: string): string => `refs/heads/${branch}`

async function listRefs(
  git: Git,
  folder: string,
  patterns: readonly string[],
  signal: AbortSignal | undefined,
): Promise<MirrorReading<readonly string[]>> {
  const listed = await readMirror(git, 'reading the references', {
    args: ['for-each-ref', '--format=%(objectname) %(refname)', ...patterns],
    folder,
    outputCharsMax: REF_LIST_CHARS_MAX,
    timeoutMs: LOCAL_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  if (!listed.ok) return listed
  return { ok: true, value: listed.value.output.split('\n').filter((line) => line !== '') }
}

async function isRecorded(copy: string, source: CopySource, copied: readonly string[]): Promise<boolean> {
  const recorded = await readFile(join(copy, RECORD_FILE), 'utf8').catch(() => undefined)
  return recorded === recordOf(source.refs, copied)
}

/** Without a record the copy is fetched again. */
async function writeRecord(git: Git, copy: string, { refs, signal }: CopySource): Promise<void> {
  const copied = await listRefs(git, copy, [], signal)
  if (!copied.ok) return
  const path = join(copy, RECORD_FILE)
  await writeFile(path, recordOf(refs, copied.value))
  // All users can read every file of a copy, whatever the umask is.
  await chmod(path, 0o644)
}

const recordOf = (source: readonly string[], copied: readonly string[]): string =>
  `${createHash('sha256')
    .update([...source, '', ...copied].join('\n'))
    .digest('hex')}\n`

// ---- copying -------------------------------------------------------------------------------------------------------

async function updateCopy(
  git: Git,
  folder: string,
  source: CopySource,
  copied: readonly string[],
): Promise<MirrorReading<void>> {
  const deleted = await deleteStaleTags(git, folder, source, copied)
  return deleted.ok ? fetchBranch(git, folder, source) : deleted
}

/** Git adds no tag that exists, and deletes none. The next fetch adds those that moved on the branch. */
async function deleteStaleTags(
  git: Git,
  copy: string,
  { refs, signal }: CopySource,
  copied: readonly string[],
): Promise<MirrorReading<void>> {
  const current = new Set(refs)
  const stale = copied.filter((ref) => ref.includes(` ${TAGS}/`) && !current.has(ref))
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

async function createCopy(git: Git, folder: string, source: CopySource): Promise<MirrorReading<void>> {
  const { mirror, branch, signal } = source
  const draft = `${folder}.new`
  await mkdir(branchCopiesFolder(mirror), { recursive: true })
  // Sandbox users must pass, whatever the umask is.
  await chmod(branchCopiesFolder(mirror), 0o755)
  await rm(draft, { recursive: true, force: true })
  await createBareRepository(draft, { isShared: true, branch })
  await packHistory(git, draft, mirror, branch, signal)
  const fetched = await fetchBranch(git, draft, source)
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
  await writeFile(input, `${branchRef(branch)}\n`)
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
async function fetchBranch(git: Git, copy: string, source: CopySource): Promise<MirrorReading<void>> {
  const { mirror, branch, signal } = source
  const ref = branchRef(branch)
  const fetched = await readMirror(git, `copying ${branch}`, {
    args: ['fetch', '--quiet', '--no-write-fetch-head', '--no-auto-maintenance', mirror, `${ref}:${ref}`],
    folder: copy,
    ownRemote: mirror,
    timeoutMs: COPY_MS_MAX,
    ...(signal === undefined ? {} : { signal }),
  })
  if (!fetched.ok) return fetched
  await writeRecord(git, copy, source)
  return DONE
}

async function markUsed(git: Git, folder: string): Promise<void> {
  // Merges small packs only, so that a large history is not written again. A failure only costs time.
  if ((await countPacks(folder)) > PACKS_MAX)
    await git.run({ args: ['repack', '-q', '-d', '--geometric=2'], folder, timeoutMs: COPY_MS_MAX })
  const now = new Date()
  await utimes(folder, now, now)
}

// ---- reading a mirror ----------------------------------------------------------------------------------------------

export type MirrorReading<T> = Result<T> & {
  /** Whether making the repository anew may cure the failure. */
  readonly isDamaged?: boolean
}

/**
 * Runs a git command that reads a mirror or a copy of it, and tells whether damage may explain a failure.
 *
 * Only git's own exit can show damage. A command that timed out, was stopped or killed, or did not start says nothing
 * about what it read; neither does an exit for lack of disk or memory. Git reports damage in many ways, so every other
 * exit counts as damage.
 */
export async function readMirror(
  git: Git,
  activity: string,
  call: GitCall,
): Promise<MirrorReading<GitResult>> {
  const ran = await git.run(call)
  if (!ran.ok || ran.value.code === 0) return ran
  const { errorKind, refused } = explainEnd(activity, ran.value)
  return { ...refused, isDamaged: errorKind !== 'machine' }
}
