/**
 * Bringing a pull request's commits into its base branch, without a working tree.
 *
 * New commits are made first, beside everything that is there, and remembered as what the pull request would come in
 * by; then the base branch is moved to them in one step, only from where it was seen. Before that step nothing has
 * happened, after it all of it has, and what a crash leaves in between belongs to no branch.
 *
 * A repository may name programs that merge certain files. None of them is run: such a repository is for its owner to
 * merge in.
 */
import { no, type Result, yes } from '../../core/result.ts'
import {
  ANY_SHA,
  type GitCommit,
  listCommitsToRebase,
  pullRef,
  readTree,
  updateRefs,
} from './git-repository.ts'
import { type GitExit, gitFailure, type RunGit, runGitForText } from './git-run.ts'
import {
  type MergeSubject,
  mergeMessage,
  refuseConflicts,
  refuseNothingToMerge,
  refuseSecondRoot,
  refuseTooManyCommits,
  squashMessage,
} from './merge-messages.ts'

export interface GitIdentity {
  readonly name: string
  readonly email: string
}

export interface MergeInput extends MergeSubject {
  /** Where the branches are. */
  readonly head: string
  readonly base: string
  /** By its full name. */
  readonly baseRef: string
  readonly committer: GitIdentity
  /** Wall milliseconds. */
  readonly atMs: number
}

/** A tree, or the files that stand against it. */
export type TrialMerge =
  | { readonly is: 'clean'; readonly tree: string }
  | { readonly is: 'dirty'; readonly files: readonly string[] }

interface NewCommit {
  readonly tree: string
  readonly parents: readonly string[]
  readonly message: string
  readonly author?: GitCommit['author']
}

const REBASED_COMMITS_MAX = 250
/** Git makes nothing of a name that consists of these. */
const UNUSABLE_NAME = /^[\s.,:;<>"\\']*$/
/** As git takes it; a commit may claim to be of any other time, or of none. */
const RAW_DATE = /^@\d{1,15} [+-]\d{4}$/

/** `moved`: somebody else moved the base branch meanwhile, and nothing has happened. */
export async function mergePull(
  run: RunGit,
  method: 'merge' | 'squash' | 'rebase',
  input: MergeInput,
): Promise<Result<'merged' | 'moved'>> {
  const created = await MERGE_METHODS[method](run, input)
  if (!created.ok) return created
  const { number, baseRef, base, head } = input
  const pullRefs = [
    { name: pullRef(number, 'head'), to: head, from: ANY_SHA },
    { name: pullRef(number, 'base'), to: base, from: ANY_SHA },
    { name: pullRef(number, 'merged'), to: created.value, from: ANY_SHA },
  ]
  // Git moves several branches one after the other: a crash in between must not forget by what this came in.
  const recorded = await updateRefs(run, pullRefs)
  const moved = recorded.ok
    ? await updateRefs(run, [{ name: baseRef, to: created.value, from: base }, ...pullRefs])
    : recorded
  if (!moved.ok) return moved.refusal.kind === 'conflict' ? yes('moved') : moved
  return yes('merged')
}

/** As the two would merge now; only objects that belong to nothing are written. */
export async function tryMerge(run: RunGit, into: string, from: string): Promise<Result<TrialMerge>> {
  const noDrivers = await checkNoMergeDrivers(run)
  if (!noDrivers.ok) return noDrivers
  const command = { args: ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', into, from] }
  const done = await run(command)
  if (!done.ok) return done
  return parseTrialMerge(command, done.value)
}

function parseTrialMerge(command: { readonly args: readonly string[] }, done: GitExit): Result<TrialMerge> {
  const [tree = '', ...files] = done.output.toString('utf8').split('\0')
  if (done.code === 0) return yes({ is: 'clean', tree: tree.trim() })
  if (done.code === 1) return yes({ is: 'dirty', files: [...new Set(files.filter((name) => name !== ''))] })
  if (/unrelated histories/.test(done.errorText)) {
    return no('conflict', 'the two branches have no history in common, so they cannot be merged')
  }
  return gitFailure(command, done)
}

async function checkNoMergeDrivers(run: RunGit): Promise<Result<void>> {
  const command = { args: ['config', '--name-only', '--get-regexp', String.raw`^merge\..*\.driver$`] }
  const done = await run(command)
  if (!done.ok) return done
  if (done.value.code === 1) return yes(undefined)
  if (done.value.code !== 0) return gitFailure(command, done.value)
  return no(
    'conflict',
    'the repository is configured to merge with programs of its own, and switchyard runs none; merge it by hand',
  )
}

// ---- the three ways ----------------------------------------------------------------------------------------------

type CreateMergeCommits = (run: RunGit, order: MergeInput) => Promise<Result<string>>

const MERGE_METHODS: Readonly<Record<'merge' | 'squash' | 'rebase', CreateMergeCommits>> = {
  async merge(run, input) {
    const tree = await mergeCleanTree(run, input, input.base, input.head)
    if (!tree.ok) return tree
    const parents = [input.base, input.head]
    return createCommit(run, input, { tree: tree.value, parents, message: mergeMessage(input) })
  },

  async squash(run, input) {
    const tree = await mergeCleanTree(run, input, input.base, input.head)
    if (!tree.ok) return tree
    const baseTree = await readTree(run, input.base)
    if (!baseTree.ok) return baseTree
    if (baseTree.value === tree.value) return refuseNothingToMerge(input)
    const commits = await listCommitsToRebase(run, input.base, input.head, REBASED_COMMITS_MAX)
    if (!commits.ok) return commits
    const [first] = commits.value
    return createCommit(run, input, {
      tree: tree.value,
      parents: [input.base],
      message: squashMessage(input, commits.value),
      ...(first === undefined ? {} : { author: first.author }),
    })
  },

  async rebase(run, input) {
    const noDrivers = await checkNoMergeDrivers(run)
    if (!noDrivers.ok) return noDrivers
    const commits = await listCommitsToRebase(run, input.base, input.head, REBASED_COMMITS_MAX + 1)
    if (!commits.ok) return commits
    if (commits.value.length > REBASED_COMMITS_MAX) return refuseTooManyCommits(input, REBASED_COMMITS_MAX)
    if (commits.value.some(({ parent }) => parent === '')) return refuseSecondRoot(input)
    let tip = input.base
    for (const one of commits.value) {
      const picked = await cherryPick(run, input, one, tip)
      if (!picked.ok) return picked
      tip = picked.value
    }
    return tip === input.base ? refuseNothingToMerge(input) : yes(tip)
  },
}

async function mergeCleanTree(
  run: RunGit,
  input: MergeInput,
  into: string,
  from: string,
): Promise<Result<string>> {
  const merged = await tryMerge(run, into, from)
  if (!merged.ok) return merged
  return merged.value.is === 'clean' ? yes(merged.value.tree) : refuseConflicts(input, merged.value.files)
}

/**
 * What one commit changed, done again on top of another. Git merges by what two commits have in common, so the tip's
 * files are put into a commit beside this one: then that is what this one began with. A change that is there already
 * makes no commit.
 */
async function cherryPick(
  run: RunGit,
  input: MergeInput,
  commit: GitCommit,
  tip: string,
): Promise<Result<string>> {
  if (commit.parent === tip) return recommit(run, input, commit, commit.tree, tip)
  const tipTree = await readTree(run, tip)
  if (!tipTree.ok) return tipTree
  const tipTwin = await createCommit(run, input, {
    tree: tipTree.value,
    parents: [commit.parent],
    message: 'beside',
  })
  if (!tipTwin.ok) return tipTwin
  const tree = await mergeCleanTree(run, input, tipTwin.value, commit.sha)
  if (!tree.ok) return tree
  return tree.value === tipTree.value ? yes(tip) : recommit(run, input, commit, tree.value, tip)
}

function recommit(run: RunGit, input: MergeInput, commit: GitCommit, tree: string, tip: string) {
  return createCommit(run, input, { tree, parents: [tip], message: commit.message, author: commit.author })
}

async function createCommit(run: RunGit, input: MergeInput, newCommit: NewCommit): Promise<Result<string>> {
  const { committer: person, atMs: at } = input
  const date = `@${Math.floor(at / 1000)} +0000`
  const author = newCommit.author ?? { ...person, date }
  const created = await runGitForText(run, {
    args: ['commit-tree', newCommit.tree, ...newCommit.parents.flatMap((parent) => ['-p', parent])],
    input: newCommit.message,
    env: {
      GIT_AUTHOR_NAME: UNUSABLE_NAME.test(author.name) ? 'nobody' : author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_AUTHOR_DATE: RAW_DATE.test(author.date) ? author.date : date,
      GIT_COMMITTER_NAME: person.name,
      GIT_COMMITTER_EMAIL: person.email,
      GIT_COMMITTER_DATE: date,
    },
  })
  return created.ok ? yes(created.value.trim()) : created
}
