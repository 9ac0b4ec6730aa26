/** Checks whether a local pull request may be merged or reopened, by the rules of GitHub and the current branches. */
import { findDiffHunk } from '../../../core/pulls/diff-line.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { ReviewLineComment } from '../../../protocol/pulls.ts'
import { printable } from '../../../protocol/schema-errors.ts'
import { type MergeInput, refuseNothingToMerge } from './git-merge.ts'
import { branchRef, findMergeBase, pullRef, type Refs } from './git-repository.ts'
import { isOpen, type PlacedComment, readState } from './pull-actions.ts'
import type { DatedPull } from './pull-file.ts'
import { type LocalRepository, readPullDiff } from './pull-state.ts'

/** A pull request with its repository and the refs of that repository. */
export interface LocatedPull {
  readonly repository: LocalRepository
  readonly pull: DatedPull
  readonly refs: Refs
}

type BranchPair = Pick<MergeInput, 'base' | 'head'>

/** Answers which commit is to be merged into which branch. */
export async function checkMerge({
  repository,
  pull,
  refs,
}: LocatedPull): Promise<Result<BranchPair & { readonly baseRef: string }>> {
  const state = readState(pull)
  if (state === 'draft') return no('conflict', 'the pull request is a draft; mark it ready, then merge it')
  if (state !== 'open') return no('conflict', `the pull request is ${state} already`)
  const branches = resolveBranches(pull, refs)
  if (!branches.ok) return branches
  const { base, head } = branches.value
  const mergeBase = await findMergeBase(repository.run, base, head)
  if (!mergeBase.ok) return mergeBase
  if (mergeBase.value === undefined) return unrelatedHistories(pull)
  if (mergeBase.value === head) return refuseNothingToMerge(pull)
  return yes({ base, head, baseRef: branchRef(pull.baseBranch) })
}

/** Requires both branches, a head that was not rewritten, and no other open pull request of the same branches. */
export async function checkReopen({ repository, pull, refs }: LocatedPull): Promise<Result<void>> {
  const branches = resolveBranches(pull, refs)
  if (!branches.ok) return branches
  const { base, head } = branches.value
  const recorded = refs.get(pullRef(pull.number, 'head'))?.sha
  if (recorded !== undefined && recorded !== head) {
    const common = await findMergeBase(repository.run, recorded, head)
    if (!common.ok) return common
    if (common.value !== recorded) return rewrittenBranch(pull.headBranch)
  }
  const mergeBase = await findMergeBase(repository.run, base, head)
  if (!mergeBase.ok) return mergeBase
  return mergeBase.value === head ? refuseNothingToMerge(pull) : checkNoOpenDuplicate(repository, pull)
}

function resolveBranches({ baseBranch, headBranch }: DatedPull, refs: Refs): Result<BranchPair> {
  const [base, head] = [refs.get(branchRef(baseBranch))?.sha, refs.get(branchRef(headBranch))?.sha]
  if (base === undefined) return missingBranch(baseBranch)
  return head === undefined ? missingBranch(headBranch) : yes({ base, head })
}

async function checkNoOpenDuplicate({ folder }: LocalRepository, pull: DatedPull): Promise<Result<void>> {
  const contents = await folder.readAll()
  if (!contents.ok) return contents
  const hasSameBranches = (candidate: DatedPull) =>
    candidate.headBranch === pull.headBranch && candidate.baseBranch === pull.baseBranch
  const duplicate = contents.value.pulls.find((candidate) => isOpen(candidate) && hasSameBranches(candidate))
  if (duplicate === undefined) return yes(undefined)
  return no(
    'conflict',
    `a pull request of ${printable(pull.headBranch)} is open already: number ${duplicate.number}`,
  )
}

// ---- refusals ----------------------------------------------------------------------------------------------------

function missingBranch(branch: string) {
  return no('conflict', `the branch ${printable(branch)} is gone; push it again, then try again`)
}

function rewrittenBranch(branch: string) {
  return no(
    'conflict',
    `the branch ${printable(branch)} was force-pushed or recreated; open a new pull request`,
  )
}

function unrelatedHistories({ headBranch, baseBranch }: DatedPull) {
  return no(
    'conflict',
    `${printable(headBranch)} and ${printable(baseBranch)} have no history in common, so they cannot be merged`,
  )
}

/**
 * Finds the lines of the diff that the comments of a review are about. The first comment that has no line refuses the
 * whole review.
 */
export async function placeComments(
  { repository, pull, refs }: LocatedPull,
  comments: readonly ReviewLineComment[],
): Promise<Result<readonly PlacedComment[]>> {
  if (comments.length === 0) return yes([])
  const diff = await readPullDiff(repository.run, pull, refs)
  if (!diff.ok) return diff
  const placed: PlacedComment[] = []
  for (const [index, comment] of comments.entries()) {
    const hunk = findDiffHunk(diff.value.files, comment)
    if (!hunk.ok) return no('invalid', `/comments/${index}: ${hunk.refusal.message}`)
    if (comment.body.trim() === '') return no('invalid', `/comments/${index}/body: must not be empty`)
    placed.push({ ...comment, hunk: hunk.value })
  }
  return yes(placed)
}
