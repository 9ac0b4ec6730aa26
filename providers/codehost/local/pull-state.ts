/**
 * Compares local pull requests with the branches of their repository.
 *
 * Reading records the commits of every open pull request below `refs/pull/<number>/`, while its branch has commits that
 * the base lacks. When the base branch later contains a recorded commit, somebody merged it by hand, or a crash
 * interrupted a merge. The pull request is then merged, and its file is updated. A branch that never had commits of its
 * own does not count as merged.
 *
 * In a read-only repository nothing is recorded; everything else still works.
 */
import type { Clock } from '../../../core/ports/clock.ts'
import type { PullDetailFacts, PullFacts } from '../../../core/ports/code-host.ts'
import { type Result, yes } from '../../../core/result.ts'
import { countChanges, diffTrees, type TreeDiff } from './git-files.ts'
import { tryMerge } from './git-merge.ts'
import {
  branchRef,
  findMergeBase,
  hashEmptyTree,
  instantFromMs,
  listCommitsBetween,
  listRefs,
  type PullRefName,
  pullRef,
  type Refs,
  type RefUpdate,
  updateRefs,
} from './git-repository.ts'
import type { RunGit } from './git-run.ts'
import { isOpen, markMerged, readState } from './pull-actions.ts'
import type { DatedPull } from './pull-file.ts'
import type { PullFolder } from './pull-folder.ts'

/** A list waits so long for sizes that git counts; the next list has those that took longer. */
const PULL_SIZES_MS_MAX = 1_000
const PULL_SIZES_KEPT_MAX = 2_000
/** Base branches whose contained refs are remembered. */
const PULL_BASES_KEPT_MAX = 100

export interface LocalRepository {
  readonly folder: PullFolder
  readonly run: RunGit
  /** Address at which a person opens the pull request. */
  readonly urlOf: (number: number) => string
}

export interface PullsAndRefs {
  readonly pulls: readonly DatedPull[]
  readonly refs: Refs
}

/** Commits of base and head; undefined when the branch is deleted and no commit was recorded. */
export interface BranchShas {
  readonly base?: string
  readonly head?: string
}

type ReconcileClock = Pick<Clock, 'now' | 'after'>

const UNKNOWN_AUTHOR = 'unknown'
const NO_DIFF: TreeDiff = { files: [], additions: 0, deletions: 0, changedFiles: 0 }

export async function reconcilePulls(
  repository: LocalRepository,
  pulls: readonly DatedPull[],
  clock: ReconcileClock,
): Promise<Result<PullsAndRefs>> {
  const refs = await listRefs(repository.run)
  if (!refs.ok) return refs
  const open = pulls.filter(isOpen)
  const reachable = await listReachableRefs(repository.run, open, refs.value)
  if (!reachable.ok) return reachable
  const isMerged = (pull: DatedPull) => isMergedIntoBase(pull, refs.value, reachable.value(pull))
  await recordPullRefs(
    repository.run,
    open
      .map((pull) => pullRefUpdates(pull, refs.value, reachable.value(pull)))
      .filter(({ length }) => length > 0),
  )
  const at = instantFromMs(clock.now())
  const settled = pulls.map(async (pull) => {
    if (!isOpen(pull) || !isMerged(pull)) return pull
    const written = await repository.folder.change(pull.number, (now) => markMerged(now, at), clock)
    // The pull request is merged even when its file cannot be updated.
    return written.ok ? written.value : valueOr(markMerged(pull, at), pull)
  })
  return yes({ pulls: await Promise.all(settled), refs: refs.value })
}

/** Prefers the current branches for an open pull request, and the recorded commits for a finished one. */
export function resolveBranchShas(pull: DatedPull, refs: Refs): BranchShas {
  const [current, recorded] = [
    { base: refs.get(branchRef(pull.baseBranch))?.sha, head: refs.get(branchRef(pull.headBranch))?.sha },
    {
      base: refs.get(pullRef(pull.number, 'base'))?.sha,
      head: refs.get(pullRef(pull.number, 'head'))?.sha,
    },
  ]
  const [first, second] = isOpen(pull) ? [current, recorded] : [recorded, current]
  const [base, head] = [first.base ?? second.base, first.head ?? second.head]
  return { ...(base === undefined ? {} : { base }), ...(head === undefined ? {} : { head }) }
}

// ---- records for the API --------------------------------------------------------------------------------------------

export function toPullFacts(pull: DatedPull, refs: Refs, url: string, now: number): PullFacts {
  const { number, title, author = UNKNOWN_AUTHOR, baseBranch, headBranch, createdAt, updatedAt } = pull
  const state = readState(pull)
  const head = isOpen(pull) ? refs.get(branchRef(headBranch)) : undefined
  // Clamp commit dates in the future, which would keep the pull request on top of the list.
  const pushedAt = head === undefined ? updatedAt : instantFromMs(Math.min(head.committedAtMs, now))
  return {
    number,
    url,
    title,
    state,
    author,
    baseBranch,
    headBranch,
    createdAt,
    updatedAt: pushedAt > updatedAt ? pushedAt : updatedAt,
    ...(state === 'merged' ? { mergedAt: pull.mergedAt ?? updatedAt } : {}),
  }
}

export async function readPullDetail(
  run: RunGit,
  pull: DatedPull,
  facts: PullFacts,
  refs: Refs,
): Promise<Result<PullDetailFacts>> {
  const { base, head } = resolveBranchShas(pull, refs)
  const hasBoth = base !== undefined && head !== undefined
  const mergeBase = hasBoth ? findMergeBase(run, base, head) : undefined
  const [changes, commits, mergeableState] = await Promise.all([
    readPullDiff(run, pull, refs, mergeBase),
    hasBoth ? listCommitsBetween(run, base, head) : yes([]),
    readMergeableState(run, pull, refs, mergeBase),
  ])
  if (!changes.ok) return changes
  if (!commits.ok) return commits
  const { comments = [], reviews = [], threads = [] } = pull
  return yes({
    ...facts,
    body: pull.body ?? '',
    draft: readState(pull) === 'draft' || (!isOpen(pull) && pull.draft === true),
    headSha: head ?? '',
    mergeableState,
    additions: changes.value.additions,
    deletions: changes.value.deletions,
    changedFiles: changes.value.changedFiles,
    conversation: { comments, reviews, threads },
    files: [...changes.value.files],
    commits: commits.value,
    checks: [],
  })
}

type MergeBase = ReturnType<typeof findMergeBase>

/** The changed files with their diffs. `known`: the merge base, where somebody looks for it already. */
export async function readPullDiff(
  run: RunGit,
  pull: DatedPull,
  refs: Refs,
  known?: MergeBase,
): Promise<Result<TreeDiff>> {
  const { base, head } = resolveBranchShas(pull, refs)
  if (base === undefined || head === undefined) return yes(NO_DIFF)
  return diffFromMergeBase(run, known ?? findMergeBase(run, base, head), head)
}

/** Compares from the merge base, as pull request pages do. Without a merge base all files are new. */
async function diffFromMergeBase(run: RunGit, base: MergeBase, head: string): Promise<Result<TreeDiff>> {
  const mergeBase = await base
  if (!mergeBase.ok) return mergeBase
  const from = mergeBase.value === undefined ? await hashEmptyTree(run) : yes(mergeBase.value)
  return from.ok ? diffTrees(run, from.value, head) : from
}

/** Values of GitHub's `mergeable_state`. `behind`: the base contains the head and more. */
async function readMergeableState(run: RunGit, pull: DatedPull, refs: Refs, at?: MergeBase): Promise<string> {
  const [base, head] = [refs.get(branchRef(pull.baseBranch))?.sha, refs.get(branchRef(pull.headBranch))?.sha]
  if (!isOpen(pull) || at === undefined || base === undefined || head === undefined) return 'unknown'
  const [mergeBase, trial] = await Promise.all([at, tryMerge(run, base, head)])
  if (!trial.ok) return trial.refusal.kind === 'conflict' ? 'blocked' : 'unknown'
  if (trial.value.is === 'dirty') return 'dirty'
  if (readState(pull) === 'draft') return 'draft'
  return mergeBase.ok && mergeBase.value === head ? 'behind' : 'clean'
}

// ---- detecting merges -----------------------------------------------------------------------------------------------

type ReachableRefs = (pull: DatedPull) => Refs | undefined

/** Refs that each base branch contains; undefined for a deleted base branch. */
async function listReachableRefs(
  run: RunGit,
  open: readonly DatedPull[],
  refs: Refs,
): Promise<Result<ReachableRefs>> {
  const bases = new Set(open.flatMap(({ baseBranch }) => refs.get(branchRef(baseBranch))?.sha ?? []))
  const listed = await Promise.all(
    [...bases].map(async (base) => [base, await listRefsOnce(run, base, refs)] as const),
  )
  const reachable = new Map<string, Refs>()
  for (const [base, refsRead] of listed) {
    if (!refsRead.ok) return refsRead
    reachable.set(base, refsRead.value)
  }
  return yes(({ baseBranch }) => reachable.get(refs.get(branchRef(baseBranch))?.sha ?? ''))
}

/**
 * The last answer for each base commit. A commit never changes what it contains, so the answer holds for as long as all
 * refs are where they were, in whatever repository.
 */
const answers = new Map<string, { readonly refs: Refs; readonly reachable: Refs }>()

async function listRefsOnce(run: RunGit, base: string, refs: Refs): Promise<Result<Refs>> {
  const known = answers.get(base)
  if (known !== undefined && known.refs.size === refs.size && hasAll(refs, known.refs))
    return yes(known.reachable)
  const listed = await listRefs(run, base)
  if (!listed.ok) return listed
  // Another process may have moved a ref between the two listings.
  if (hasAll(refs, listed.value)) answers.set(base, { refs, reachable: listed.value })
  const [oldest] = answers.keys()
  if (oldest !== undefined && answers.size > PULL_BASES_KEPT_MAX) answers.delete(oldest)
  return listed
}

const hasAll = (refs: Refs, some: Refs): boolean =>
  [...some].every(([name, { sha }]) => refs.get(name)?.sha === sha)

function isMergedIntoBase(
  { number, headBranch }: DatedPull,
  refs: Refs,
  reachable: Refs | undefined,
): boolean {
  const head = refs.get(branchRef(headBranch))?.sha
  const recorded = refs.get(pullRef(number, 'head'))?.sha
  if (reachable === undefined || recorded === undefined) return false
  const isHeadUnchanged = head === undefined || head === recorded
  if (isHeadUnchanged && reachable.has(pullRef(number, 'merged'))) return true
  return (
    reachable.has(pullRef(number, 'head')) && (head === undefined || reachable.has(branchRef(headBranch)))
  )
}

/** Updates expect the refs as they were read, because a merge in another process has newer facts. */
function pullRefUpdates(
  { number, baseBranch, headBranch }: DatedPull,
  refs: Refs,
  reachable: Refs | undefined,
): RefUpdate[] {
  const [base, head] = [refs.get(branchRef(baseBranch))?.sha, refs.get(branchRef(headBranch))?.sha]
  if (reachable === undefined || base === undefined || head === undefined) return []
  const recordedSha = (name: PullRefName) => refs.get(pullRef(number, name))?.sha
  if (reachable.has(branchRef(headBranch)) || recordedSha('head') === head) return []
  const refUpdate = (name: PullRefName, to: string | undefined) => ({
    name: pullRef(number, name),
    to,
    from: recordedSha(name),
  })
  // The branch has new commits, so a `merged` ref from an earlier pull request of this number is wrong.
  const removals = recordedSha('merged') === undefined ? [] : [refUpdate('merged', undefined)]
  return [refUpdate('head', head), refUpdate('base', base), ...removals]
}

/** Writes all updates at once. If that fails, writes them per pull request, so one failure affects one only. */
async function recordPullRefs(run: RunGit, updatesPerPull: readonly (readonly RefUpdate[])[]): Promise<void> {
  if (updatesPerPull.length === 0) return
  const done = await updateRefs(run, updatesPerPull.flat())
  if (done.ok || updatesPerPull.length === 1) return
  for (const updates of updatesPerPull) await updateRefs(run, updates)
}

const valueOr = (result: Result<DatedPull>, fallback: DatedPull): DatedPull =>
  result.ok ? result.value : fallback

type PullSize = Omit<TreeDiff, 'files'>

const NO_SIZE = { additions: 0, deletions: 0, changedFiles: 0 }

/** Commits are named by their content, so one table serves every repository. A comparison that failed has no size. */
const sizes = new Map<string, PullSize | undefined>()
const comparisons = new Map<string, Promise<void>>()

/**
 * The sizes of pull requests for a list, as far as they are known after a short time: a list does not wait for a
 * comparison that takes long, the next one has it. An absent size is not known.
 *
 * Git compares two commits once: they never change, so the result is kept.
 */
export async function readPullSizes(
  run: RunGit,
  pulls: readonly BranchShas[],
  clock: Pick<Clock, 'after'>,
): Promise<(PullSize | undefined)[]> {
  const compared = Promise.all(pulls.map((pull) => compareOnce(run, pull)))
  let cancel = () => {}
  const late = new Promise<void>((resolve) => {
    cancel = clock.after(PULL_SIZES_MS_MAX, resolve)
  })
  await Promise.race([compared, late])
  cancel()
  return pulls.map((pull) => sizes.get(keyOf(pull)))
}

const keyOf = ({ base = '', head = '' }: BranchShas): string => `${base} ${head}`

async function compareOnce(run: RunGit, pull: BranchShas): Promise<void> {
  const key = keyOf(pull)
  if (sizes.has(key) || pull.base === undefined || pull.head === undefined) return
  const running = comparisons.get(key) ?? compare(run, key, pull.base, pull.head)
  comparisons.set(key, running)
  await running
}

/** Compares from the merge base, as the diff of a pull request does. */
async function compare(run: RunGit, key: string, base: string, head: string): Promise<void> {
  const counted = base === head ? undefined : await countChanges(run, ['--merge-base', base, head])
  const size = counted === undefined ? NO_SIZE : counted.ok ? counted.value : undefined
  comparisons.delete(key)
  sizes.set(key, size)
  const [oldest] = sizes.keys()
  if (oldest !== undefined && sizes.size > PULL_SIZES_KEPT_MAX) sizes.delete(oldest)
}
