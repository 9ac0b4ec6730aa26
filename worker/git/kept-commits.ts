/**
 * `requireKeptCommits` refuses work that would take other people's commits off the run's branch.
 *
 * A run continues a branch that is on the code host already, and its push replaces that branch. Commits count as kept when
 * the work contains them, the same changes, or a commit of the same author and moment, as a rebase leaves it. An agent
 * may replace what earlier attempts of the run have committed.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { Git, GitCall } from './git.ts'
import { COMMITTER } from './git-inside-sandbox.ts'
import type { CheckedOut } from './git-ports.ts'

const LOCAL_MS_MAX = 60_000
const COMMITS_SEARCHED_MAX = 1_000
const COMMITS_NAMED_MAX = 3
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
  { base, pushedBefore }: CheckedOut,
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
  const lost = ofOthers.filter(({ authorship }) => !authorships.has(authorship)).map(({ id }) => id)
  if (lost.length === 0) return yes(undefined)
  const names = lost.slice(0, COMMITS_NAMED_MAX).join(', ')
  const more = lost.length > COMMITS_NAMED_MAX ? ` and ${lost.length - COMMITS_NAMED_MAX} more` : ''
  return no(
    'conflict',
    `the work leaves out what other people committed on ${branch} (${names}${more}), so nothing was pushed and it stays in the sandbox; rebase it onto that branch there, or start the run again`,
  )
}

async function listCommits(
  git: Git,
  folder: string,
  range: readonly string[],
): Promise<Result<readonly ListedCommit[]>> {
  const call: GitCall = {
    args: ['log', '--no-merges', `--max-count=${COMMITS_SEARCHED_MAX}`, FORMAT, ...range],
    folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  }
  const listed = await git.runChecked('comparing the work with the branch', call)
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
