/**
 * Where the two branches of a pull request stand, read from the worker's own copies, and whether this follow-up has
 * been pushed already.
 */
import { no, type Result, yes } from '../../core/result.ts'
import { SEAL } from './follow-up-scripts.ts'
import type { Git } from './git.ts'

export interface Heads {
  /** The branch that is followed up. */
  readonly head: string
  /** What it is to be brought into. */
  readonly base: string
}

interface Asked {
  readonly seal: string
  readonly job: { readonly repo: { readonly remote: string } }
  readonly pull: { readonly headBranch: string; readonly headRemote: string; readonly baseBranch: string }
}

const LOCAL_MS_MAX = 60_000
/**
 * Somebody may have gone on from what was pushed, with as many commits as they like. A fork's copy may lack the base's
 * newest commit: then it is the whole history that is looked at, and that may be without end.
 */
const COMMITS_LOOKED_AT = 50_000

export async function followUpHeads(
  git: Git,
  folders: { readonly base: string; readonly head: string },
  { seal, job, pull }: Asked,
): Promise<Result<Heads & { readonly isPushed: boolean }>> {
  const base = await commitOf(git, folders.base, pull.baseBranch)
  if (!base.ok) return base
  if (base.value === undefined) return missing(job.repo.remote, pull.baseBranch)
  const head = await commitOf(git, folders.head, pull.headBranch)
  if (!head.ok) return head
  if (head.value === undefined) return missing(pull.headRemote, pull.headBranch)
  const isPushed = await bears(git, folders.head, { base: base.value, head: head.value }, seal)
  return isPushed.ok ? yes({ base: base.value, head: head.value, isPushed: isPushed.value }) : isPushed
}

function missing(remote: string, branch: string) {
  return no('unknown', `${remote} has no branch ${branch}; restore it, or close the pull request`)
}

async function commitOf(git: Git, folder: string, branch: string): Promise<Result<string | undefined>> {
  const ref = `refs/heads/${branch}`
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', ref]
  const found = await git.done(`looking for ${branch}`, { args, folder, timeoutMs: LOCAL_MS_MAX })
  if (!found.ok) return found
  // A pattern also names what is below it.
  const line = found.value.output.split('\n').find((one) => one.endsWith(` ${ref}`))
  return yes(line?.slice(0, line.indexOf(' ')))
}

/** Of what the base has not. Messages are indented, so only a header can look like one. */
async function bears(
  git: Git,
  folder: string,
  { base, head }: Heads,
  seal: string,
): Promise<Result<boolean>> {
  const most = `--max-count=${COMMITS_LOOKED_AT}`
  const listed = await git.done('looking at what was pushed', {
    args: ['rev-list', '--header', '--ignore-missing', most, head, `^${base}`],
    seeks: `\n${SEAL} ${seal}\n`,
    folder,
    wary: true,
    timeoutMs: LOCAL_MS_MAX,
  })
  return listed.ok ? yes(listed.value.hasFound === true) : listed
}
