/**
 * `requireKeptCommits` refuses work that would take other people's commits off the run's branch.
 *
 * A run continues a branch that is on the code host already, and its push replaces that branch. Commits count as kept when
 * the work contains them, the same changes, or a commit of the same author and moment, as a rebase leaves it, and when
 * the base has their files as the branch does. An agent may replace what earlier attempts of the run have committed.
 * This guards against mistakes: an agent that means to can still take changes back.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import type { Git } from '../git.ts'
import { COMMITTER } from '../git-inside-sandbox.ts'
import type { CheckedOut } from '../git-ports.ts'
import { untrustedCall } from './work-bounds.ts'

const COMMITS_SEARCHED_MAX = 1_000
const COMMITS_NAMED_MAX = 3
/** Each takes a process of git; further ones count as lost. */
const COMMITS_COMPARED_MAX = 50
const PATHS_CHARS_MAX = 8 * 1024 * 1024
const TOO_MANY_PATHS =
  'the branch and its base differ in too many files to compare them, so nothing was pushed'
const SEPARATOR = '\0'
const FORMAT = '--format=%h%x00%ae%x00%at%x00%ce'

interface ListedCommit {
  readonly id: string
  readonly isOurs: boolean
  /** The author and the moment, which a rebase keeps. */
  readonly authorship: string
}

/** @param folder the run repository */
export async function requireKeptCommits(
  git: Git,
  folder: string,
  work: { readonly head: string; readonly branch: string },
  { base, baseTip = base, pushedBefore }: CheckedOut,
): Promise<Result<void>> {
  if (pushedBefore === undefined) return yes(undefined)
  const { head, branch } = work
  // Commits of the branch without an equal change in the work.
  const missing = await listCommits(git, folder, [
    '--cherry-pick',
    '--right-only',
    `${head}...${pushedBefore}`,
  ])
  if (!missing.ok) return missing
  const ofOthers = missing.value.filter(({ isOurs }) => !isOurs)
  if (ofOthers.length === 0) return yes(undefined)
  const own = await listCommits(git, folder, [head, `^${base}`])
  if (!own.ok) return own
  const authorships = new Set(own.value.map(({ authorship }) => authorship))
  const gone = ofOthers.filter(({ authorship }) => !authorships.has(authorship)).map(({ id }) => id)
  if (gone.length === 0) return yes(undefined)
  const lost = await withoutUpstream(git, folder, gone, { pushedBefore, baseTip })
  if (!lost.ok) return lost
  if (lost.value.length === 0) return yes(undefined)
  const names = lost.value.slice(0, COMMITS_NAMED_MAX).join(', ')
  const more = lost.value.length - COMMITS_NAMED_MAX
  const commits = more > 0 ? `${names} and ${more} more` : names
  return no(
    'conflict',
    `the work leaves out commits on ${branch} that no attempt of this run made (${commits}), so nothing was pushed and it stays in the sandbox; start the run again, after renaming or deleting the branch if those commits are not wanted`,
  )
}

/** Leaves commits out of which all files are in the base as they are on the branch: a squash merge leaves such a branch. */
async function withoutUpstream(
  git: Git,
  folder: string,
  commits: readonly string[],
  { pushedBefore, baseTip }: { readonly pushedBefore: string; readonly baseTip: string },
): Promise<Result<readonly string[]>> {
  const differing = await listPaths(git, folder, ['diff', ...DIFF, pushedBefore, baseTip])
  if (!differing.ok) return differing
  const different = new Set(differing.value)
  const lost: string[] = []
  for (const commit of commits.slice(0, COMMITS_COMPARED_MAX)) {
    const touched = await listPaths(git, folder, ['diff-tree', '-r', '--no-commit-id', ...DIFF, commit])
    if (!touched.ok) return touched
    if (touched.value.some((path) => different.has(path))) lost.push(commit)
  }
  return yes([...lost, ...commits.slice(COMMITS_COMPARED_MAX)])
}

const DIFF = ['--no-ext-diff', '--no-textconv', '--no-renames', '--name-only', '-z']

async function listPaths(
  git: Git,
  folder: string,
  args: readonly string[],
): Promise<Result<readonly string[]>> {
  const listed = await git.runChecked('comparing the branch with its base', {
    ...untrustedCall(folder, args),
    outputCharsMax: PATHS_CHARS_MAX,
  })
  if (!listed.ok) return listed
  const { output } = listed.value
  if (output.length >= PATHS_CHARS_MAX) return no('invalid', TOO_MANY_PATHS)
  return yes(output.split('\0').filter((path) => path !== ''))
}

async function listCommits(
  git: Git,
  folder: string,
  range: readonly string[],
): Promise<Result<readonly ListedCommit[]>> {
  const args = ['log', '--no-merges', `--max-count=${COMMITS_SEARCHED_MAX}`, FORMAT, ...range]
  const listed = await git.runChecked('comparing the work with the branch', untrustedCall(folder, args))
  if (!listed.ok) return listed
  const lines = listed.value.output.split('\n').filter((line) => line !== '')
  return yes(
    lines.map((line) => {
      const [id = '', author = '', moment = '', committer] = line.split(SEPARATOR)
      return {
        id,
        isOurs: author === COMMITTER.email && committer === COMMITTER.email,
        authorship: `${author} ${moment}`,
      }
    }),
  )
}
