/**
 * `readBranchHeads` reads the commits of a pull request's two branches from the worker's mirrors, and whether this
 * follow-up was already pushed.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { readRef } from './bare-repository.ts'
import type { Git } from './git.ts'
import { SEAL_HEADER } from './seal-commit.ts'

export interface BranchHeads {
  /** The commit of the pull request's branch. */
  readonly head: string
  /** The commit of the branch that the pull request targets. */
  readonly base: string
}

interface BranchQuery {
  readonly seal: string
  readonly job: { readonly repo: { readonly remote: string } }
  readonly pull: { readonly headBranch: string; readonly headRemote: string; readonly baseBranch: string }
}

const LOCAL_MS_MAX = 60_000
/**
 * Limits the search for the sealed commit. A person may have pushed many commits on top of it; and a fork's mirror may
 * lack the newest base commit, in which case git lists the whole history.
 */
const COMMITS_SEARCHED_MAX = 50_000

export async function readBranchHeads(
  git: Git,
  folders: { readonly base: string; readonly head: string },
  { seal, job, pull }: BranchQuery,
): Promise<Result<BranchHeads & { readonly isPushed: boolean }>> {
  const { baseBranch, headBranch } = pull
  const base = await readRef(folders.base, `refs/heads/${baseBranch}`)
  if (base === undefined) return missingBranch(job.repo.remote, baseBranch)
  const head = await readRef(folders.head, `refs/heads/${headBranch}`)
  if (head === undefined) return missingBranch(pull.headRemote, headBranch)
  const isPushed = await hasSealedCommit(git, folders.head, { base, head }, seal)
  return isPushed.ok ? yes({ base, head, isPushed: isPushed.value }) : isPushed
}

function missingBranch(remote: string, branch: string) {
  return no('unknown', `${remote} has no branch ${branch}; restore it, or close the pull request`)
}

/** Searches the commits that the base lacks. `rev-list --header` indents messages, so only a header line can match. */
async function hasSealedCommit(
  git: Git,
  folder: string,
  { base, head }: BranchHeads,
  seal: string,
): Promise<Result<boolean>> {
  const most = `--max-count=${COMMITS_SEARCHED_MAX}`
  const listed = await git.runChecked('looking at what was pushed', {
    args: ['rev-list', '--header', '--ignore-missing', most, head, `^${base}`],
    searchFor: `\n${SEAL_HEADER} ${seal}\n`,
    folder,
    isUntrusted: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  return listed.ok ? yes(listed.value.hasFound === true) : listed
}
