/**
 * `withCheckoutSource` lends a checkout what it may contain: one branch with its tags, and the commits of one head.
 *
 * The source has no other branch and no object that only other branches reach, so an agent never sees the unmerged
 * work of other runs. The branch comes from its branch copy, the head's own commits from a bundle. Call it only while
 * the mirrors are in use.
 */
import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { no, type Result, yes } from '../../../core/result.ts'
import type { Git } from '../git.ts'
import { explainFailure } from '../git-errors.ts'
import { CACHE_INSIDE, failureOf, HEAD_BUNDLE_INSIDE, HEAD_REF } from '../git-inside-sandbox.ts'
import type { SandboxCommandResult } from '../git-ports.ts'
import { writeRef } from '../mirror/bare-repository.ts'
import {
  type BranchCopy,
  branchCopiesFolder,
  deleteBranchCopy,
  type MirrorReading,
  readMirror,
  updateBranchCopy,
} from '../mirror/branch-copy.ts'
import { createBorrowingRepository } from './run-repository.ts'

export interface CheckoutSourceRequest {
  /** The mirror of the repository that the checkout is a clone of. */
  readonly mirror: string
  /** The mirror with the head's commits; another one for a fork. */
  readonly headMirror: string
  readonly branch: string
  /** The commit of `branch`. */
  readonly base: string
  /** The commit to check out. */
  readonly head: string
  /** The worker's own folder of the run. */
  readonly staging: string
  /** Whether `work` may be called a second time after it has failed. */
  readonly isRepeatable: boolean
  readonly signal: AbortSignal
}

export interface SourceMount {
  readonly from: string
  readonly to: string
}

export interface SourceAttempt<T> {
  readonly result: Result<T>
  /** The part to make anew before another attempt. Absent: another attempt would fail, too. */
  readonly damaged?: 'mirror' | 'checkout' | undefined
  /** Whether damage of the source may explain the failure. */
  readonly mayBeSource?: boolean
}

const BUNDLE_MS_MAX = 10 * 60_000
const LOCAL_MS_MAX = 60_000

/** A copy of the branch that existed before is not trusted any more when `work` fails with it. */
export async function withCheckoutSource<T>(
  git: Git,
  request: CheckoutSourceRequest,
  work: (mounts: readonly SourceMount[]) => Promise<SourceAttempt<T>>,
): Promise<SourceAttempt<T>> {
  const first = await attemptWithSource(git, request, work)
  const { copy, attempt } = first
  if (copy === undefined || copy.isNew || attempt.mayBeSource !== true || request.signal.aborted)
    return attempt
  await deleteBranchCopy(copy)
  return request.isRepeatable ? (await attemptWithSource(git, request, work)).attempt : attempt
}

async function attemptWithSource<T>(
  git: Git,
  request: CheckoutSourceRequest,
  work: (mounts: readonly SourceMount[]) => Promise<SourceAttempt<T>>,
): Promise<{ readonly copy?: BranchCopy; readonly attempt: SourceAttempt<T> }> {
  const { mirror, branch, signal } = request
  const copy = await updateBranchCopy(git, { mirror, branch, signal })
  if (!copy.ok) return { attempt: sourceFailed(branch, copy) }
  const bundle = join(branchCopiesFolder(mirror), 'head.bundle')
  try {
    const written = await writeHeadBundle(git, request, bundle)
    if (!written.ok) return { attempt: sourceFailed(branch, written) }
    const mounts = [{ from: copy.value.folder, to: CACHE_INSIDE }]
    const attempt = await work(written.value ? [...mounts, { from: bundle, to: HEAD_BUNDLE_INSIDE }] : mounts)
    return { copy: copy.value, attempt }
  } finally {
    await deleteBundle(bundle)
    await rm(headRepositoryPath(request), { recursive: true, force: true })
  }
}

/** Judges a git script that failed inside. Damage of the source shows only when git reads the damaged object. */
export function judgeFailure(
  result: SandboxCommandResult,
): Pick<SourceAttempt<never>, 'damaged' | 'mayBeSource'> {
  const fault = failureOf(result)
  if (fault === undefined || result.startFailure !== undefined) return {}
  // Only git's own exit can show damage.
  if (result.code === undefined) return { damaged: 'checkout' }
  const { errorKind } = explainFailure('', fault)
  return { damaged: errorKind === 'corrupt' ? 'mirror' : 'checkout', mayBeSource: errorKind !== 'machine' }
}

function sourceFailed(
  branch: string,
  { refusal, isDamaged }: MirrorReading<unknown> & { readonly ok: false },
): SourceAttempt<never> {
  const result = no(refusal.kind, `checking out ${branch} failed: ${refusal.message}`)
  return isDamaged === true ? { result, damaged: 'mirror' } : { result }
}

/** A killed git leaves a lock behind, which would refuse every later bundle. */
async function deleteBundle(bundle: string): Promise<void> {
  for (const path of [bundle, `${bundle}.lock`]) await rm(path, { force: true })
}

const headRepositoryPath = ({ staging }: CheckoutSourceRequest): string => join(staging, 'head.git')

/** Writes the commits that the head has and the branch lacks; returns whether there are any. */
async function writeHeadBundle(
  git: Git,
  request: CheckoutSourceRequest,
  bundle: string,
): Promise<MirrorReading<boolean>> {
  const { mirror, headMirror, base, head, staging, signal } = request
  await deleteBundle(bundle)
  if (head === base) return yes(false)
  const folder = headRepositoryPath(request)
  await mkdir(staging, { recursive: true, mode: 0o700 })
  await createBorrowingRepository(folder, [mirror, headMirror])
  const contained = await git.run({
    args: ['merge-base', '--is-ancestor', head, base],
    folder,
    timeoutMs: LOCAL_MS_MAX,
    signal,
  })
  if (!contained.ok) return contained
  if (contained.value.code === 0) return yes(false)
  await writeRef(folder, HEAD_REF, head)
  const written = await readMirror(git, 'reading the branch', {
    args: ['bundle', 'create', '--quiet', bundle, HEAD_REF, `^${base}`],
    folder,
    timeoutMs: BUNDLE_MS_MAX,
    signal,
  })
  if (!written.ok) return written
  // Readable by the sandbox's user, whatever the umask is.
  await chmod(bundle, 0o644)
  return yes(true)
}
