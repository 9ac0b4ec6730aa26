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
import { ANYWHERE, commitsToMove, type GitCommit, memoryRef, moveRefs, treeOf } from './git-repository.ts'
import { type GitDone, gitFailed, gitText, type RunGit } from './git-run.ts'
import {
  beginsAnew,
  conflictsIn,
  mergeMessage,
  nothingToMerge,
  type Spoken,
  squashedMessage,
  tooMany,
} from './merge-messages.ts'

export interface Person {
  readonly name: string
  readonly email: string
}

export interface MergeOrder extends Spoken {
  /** Where the branches are. */
  readonly head: string
  readonly base: string
  /** By its full name. */
  readonly baseRef: string
  readonly person: Person
  /** Wall milliseconds. */
  readonly at: number
}

/** A tree, or the files that stand against it. */
export type Merged =
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
const NO_NAME = /^[\s.,:;<>"\\']*$/
/** As git takes it; a commit may claim to be of any other time, or of none. */
const DATE = /^@\d{1,15} [+-]\d{4}$/

/** `moved`: somebody else moved the base branch meanwhile, and nothing has happened. */
export async function mergePull(
  run: RunGit,
  method: 'merge' | 'squash' | 'rebase',
  order: MergeOrder,
): Promise<Result<'merged' | 'moved'>> {
  const made = await MAKE[method](run, order)
  if (!made.ok) return made
  const { number, baseRef, base, head } = order
  const memories = [
    { name: memoryRef(number, 'head'), to: head, from: ANYWHERE },
    { name: memoryRef(number, 'base'), to: base, from: ANYWHERE },
    { name: memoryRef(number, 'merged'), to: made.value, from: ANYWHERE },
  ]
  // Git moves several branches one after the other: a crash in between must not forget by what this came in.
  const remembered = await moveRefs(run, memories)
  const moved = remembered.ok
    ? await moveRefs(run, [{ name: baseRef, to: made.value, from: base }, ...memories])
    : remembered
  if (!moved.ok) return moved.refusal.kind === 'conflict' ? yes('moved') : moved
  return yes('merged')
}

/** As the two would merge now; only objects that belong to nothing are written. */
export async function tryMerge(run: RunGit, into: string, from: string): Promise<Result<Merged>> {
  const safe = await mayMerge(run)
  if (!safe.ok) return safe
  const order = { args: ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', into, from] }
  const done = await run(order)
  if (!done.ok) return done
  return mergedOf(order, done.value)
}

function mergedOf(order: { readonly args: readonly string[] }, done: GitDone): Result<Merged> {
  const [tree = '', ...files] = done.output.toString('utf8').split('\0')
  if (done.code === 0) return yes({ is: 'clean', tree: tree.trim() })
  if (done.code === 1) return yes({ is: 'dirty', files: [...new Set(files.filter((name) => name !== ''))] })
  if (/unrelated histories/.test(done.complaint)) {
    return no('conflict', 'the two branches have no history in common, so they cannot be merged')
  }
  return gitFailed(order, done)
}

async function mayMerge(run: RunGit): Promise<Result<void>> {
  const order = { args: ['config', '--name-only', '--get-regexp', String.raw`^merge\..*\.driver$`] }
  const done = await run(order)
  if (!done.ok) return done
  if (done.value.code === 1) return yes(undefined)
  if (done.value.code !== 0) return gitFailed(order, done.value)
  return no(
    'conflict',
    'the repository is configured to merge with programs of its own, and switchyard runs none; merge it by hand',
  )
}

// ---- the three ways ----------------------------------------------------------------------------------------------

type Make = (run: RunGit, order: MergeOrder) => Promise<Result<string>>

const MAKE: Readonly<Record<'merge' | 'squash' | 'rebase', Make>> = {
  async merge(run, order) {
    const tree = await cleanTree(run, order, order.base, order.head)
    if (!tree.ok) return tree
    const parents = [order.base, order.head]
    return commit(run, order, { tree: tree.value, parents, message: mergeMessage(order) })
  },

  async squash(run, order) {
    const tree = await cleanTree(run, order, order.base, order.head)
    if (!tree.ok) return tree
    const before = await treeOf(run, order.base)
    if (!before.ok) return before
    if (before.value === tree.value) return nothingToMerge(order)
    const commits = await commitsToMove(run, order.base, order.head, REBASED_COMMITS_MAX)
    if (!commits.ok) return commits
    const [first] = commits.value
    return commit(run, order, {
      tree: tree.value,
      parents: [order.base],
      message: squashedMessage(order, commits.value),
      ...(first === undefined ? {} : { author: first.author }),
    })
  },

  async rebase(run, order) {
    const safe = await mayMerge(run)
    if (!safe.ok) return safe
    const commits = await commitsToMove(run, order.base, order.head, REBASED_COMMITS_MAX + 1)
    if (!commits.ok) return commits
    if (commits.value.length > REBASED_COMMITS_MAX) return tooMany(order, REBASED_COMMITS_MAX)
    if (commits.value.some(({ parent }) => parent === '')) return beginsAnew(order)
    let tip = order.base
    for (const one of commits.value) {
      const moved = await movedOnto(run, order, one, tip)
      if (!moved.ok) return moved
      tip = moved.value
    }
    return tip === order.base ? nothingToMerge(order) : yes(tip)
  },
}

async function cleanTree(
  run: RunGit,
  order: MergeOrder,
  into: string,
  from: string,
): Promise<Result<string>> {
  const merged = await tryMerge(run, into, from)
  if (!merged.ok) return merged
  return merged.value.is === 'clean' ? yes(merged.value.tree) : conflictsIn(order, merged.value.files)
}

/**
 * What one commit changed, done again on top of another. Git merges by what two commits have in common, so the tip's
 * files are put into a commit beside this one: then that is what this one began with. A change that is there already
 * makes no commit.
 */
async function movedOnto(
  run: RunGit,
  order: MergeOrder,
  one: GitCommit,
  tip: string,
): Promise<Result<string>> {
  if (one.parent === tip) return rewritten(run, order, one, one.tree, tip)
  const before = await treeOf(run, tip)
  if (!before.ok) return before
  const beside = await commit(run, order, { tree: before.value, parents: [one.parent], message: 'beside' })
  if (!beside.ok) return beside
  const tree = await cleanTree(run, order, beside.value, one.sha)
  if (!tree.ok) return tree
  return tree.value === before.value ? yes(tip) : rewritten(run, order, one, tree.value, tip)
}

function rewritten(run: RunGit, order: MergeOrder, one: GitCommit, tree: string, tip: string) {
  return commit(run, order, { tree, parents: [tip], message: one.message, author: one.author })
}

async function commit(run: RunGit, order: MergeOrder, made: NewCommit): Promise<Result<string>> {
  const { person, at } = order
  const date = `@${Math.floor(at / 1000)} +0000`
  const author = made.author ?? { ...person, date }
  const shown = await gitText(run, {
    args: ['commit-tree', made.tree, ...made.parents.flatMap((parent) => ['-p', parent])],
    input: made.message,
    env: {
      GIT_AUTHOR_NAME: NO_NAME.test(author.name) ? 'nobody' : author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_AUTHOR_DATE: DATE.test(author.date) ? author.date : date,
      GIT_COMMITTER_NAME: person.name,
      GIT_COMMITTER_EMAIL: person.email,
      GIT_COMMITTER_DATE: date,
    },
  })
  return shown.ok ? yes(shown.value.trim()) : shown
}
