/**
 * What has to be so before a pull request of the local code host is merged or opened again: what GitHub asks, asked of
 * the branches as they are.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { MergeOrder } from './git-merge.ts'
import { branchRef, memoryRef, mergeBaseOf, type Refs } from './git-repository.ts'
import { isOpen, stateOf } from './local-pull-actions.ts'
import type { DatedPull } from './local-pull-file.ts'
import type { LocalRepository } from './local-pull-state.ts'
import { nothingToMerge } from './merge-messages.ts'

/** One pull request with its surroundings. */
export interface Found {
  readonly repository: LocalRepository
  readonly pull: DatedPull
  readonly refs: Refs
}

type Branches = Pick<MergeOrder, 'base' | 'head'>

/** Answers what is to be merged into what. */
export async function mayMerge({
  repository,
  pull,
  refs,
}: Found): Promise<Result<Branches & { readonly baseRef: string }>> {
  const state = stateOf(pull)
  if (state === 'draft') return no('conflict', 'the pull request is a draft; mark it ready, then merge it')
  if (state !== 'open') return no('conflict', `the pull request is ${state} already`)
  const branches = branchesOf(pull, refs)
  if (!branches.ok) return branches
  const { base, head } = branches.value
  const parted = await mergeBaseOf(repository.run, base, head)
  if (!parted.ok) return parted
  if (parted.value === undefined) return nothingInCommon(pull)
  if (parted.value === head) return nothingToMerge(pull)
  return yes({ base, head, baseRef: branchRef(pull.baseBranch) })
}

/** What GitHub asks before: both branches are there, the head was only added to, and nobody took its place. */
export async function mayReopen({ repository, pull, refs }: Found): Promise<Result<void>> {
  const branches = branchesOf(pull, refs)
  if (!branches.ok) return branches
  const { base, head } = branches.value
  const was = refs.get(memoryRef(pull.number, 'head'))?.sha
  if (was !== undefined && was !== head) {
    const kept = await mergeBaseOf(repository.run, was, head)
    if (!kept.ok) return kept
    if (kept.value !== was) return recreated(pull.headBranch)
  }
  const parted = await mergeBaseOf(repository.run, base, head)
  if (!parted.ok) return parted
  return parted.value === head ? nothingToMerge(pull) : standsAlone(repository, pull)
}

function branchesOf({ baseBranch, headBranch }: DatedPull, refs: Refs): Result<Branches> {
  const [base, head] = [refs.get(branchRef(baseBranch))?.sha, refs.get(branchRef(headBranch))?.sha]
  if (base === undefined) return branchGone(baseBranch)
  return head === undefined ? branchGone(headBranch) : yes({ base, head })
}

async function standsAlone({ folder }: LocalRepository, pull: DatedPull): Promise<Result<void>> {
  const found = await folder.look()
  if (!found.ok) return found
  const isSame = (one: DatedPull) => one.headBranch === pull.headBranch && one.baseBranch === pull.baseBranch
  const other = found.value.pulls.find((one) => isOpen(one) && isSame(one))
  if (other === undefined) return yes(undefined)
  return no(
    'conflict',
    `a pull request of ${printable(pull.headBranch)} is open already: number ${other.number}`,
  )
}

// ---- refusals ----------------------------------------------------------------------------------------------------

function branchGone(branch: string) {
  return no('conflict', `the branch ${printable(branch)} is gone; push it again, then try again`)
}

function recreated(branch: string) {
  return no(
    'conflict',
    `the branch ${printable(branch)} was force-pushed or made anew; open a new pull request`,
  )
}

function nothingInCommon({ headBranch, baseBranch }: DatedPull) {
  return no(
    'conflict',
    `${printable(headBranch)} and ${printable(baseBranch)} have no history in common, so they cannot be merged`,
  )
}
