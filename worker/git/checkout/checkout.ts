/**
 * `checkOut` updates the worker's mirror of a repository outside, then clones one branch of it inside.
 *
 * A branch that already exists on the code host is continued, because an earlier attempt or a person has pushed work
 * there. If the base already contains that work, the branch starts at the base again. The checkout does not refer to
 * the worker's files: objects are copied, and `origin` is the repository's address without a credential.
 */
import { no, type Result, yes } from '../../../core/result.ts'
import type { Job } from '../../../protocol/frames.ts'
import type { Git } from '../git.ts'
import { explainFailure, lastLines, unreadableRemote } from '../git-errors.ts'
import {
  CACHE_INSIDE,
  COMMITTER,
  failureOf,
  HEAD_BUNDLE_INSIDE,
  HEAD_REF,
  scriptCommand,
} from '../git-inside-sandbox.ts'
import type { CheckedOut, LogToRun, RunFolders, SandboxRunner } from '../git-ports.ts'
import { readRef } from '../mirror/bare-repository.ts'
import type { MirrorCache, RemoteRepository } from '../mirror/mirror-cache.ts'
import { mayPush } from '../publish/push.ts'
import { originInside } from '../resolve-remote.ts'
import { whileBeginning } from '../retry.ts'
import { judgeFailure, type SourceAttempt, type SourceMount, withCheckoutSource } from './checkout-source.ts'
import { findReachableHosts } from './lock-files.ts'

export interface CheckoutPorts {
  readonly git: Git
  readonly cache: MirrorCache
}

export interface GitWorkspace {
  readonly job: Job
  readonly repository: RemoteRepository
  readonly folders: RunFolders
  readonly sandbox: SandboxRunner
}

const LOCAL_MS_MAX = 60_000
const CHECKOUT_MS_MAX = 15 * 60_000

/**
 * An attempt that failed may have left files. An empty template leaves out git's sample hooks; `hooks` and `info` exist
 * because tools write into them.
 * $1 base, $2 origin, $3 branch, $4 commit, $5 name, $6 email
 */
const CHECKOUT_SCRIPT = `
if [ -e /work/.git ]; then find /work -mindepth 1 -delete; fi
git clone --quiet --no-hardlinks --single-branch --no-checkout --template= --branch "$1" -c user.name="$5" -c user.email="$6" ${CACHE_INSIDE} /work
cd /work
mkdir -p .git/hooks .git/info
git config remote.origin.url "$2"
if [ -e ${HEAD_BUNDLE_INSIDE} ]; then
  git -c fetch.unpackLimit=1 fetch --quiet --no-tags --no-write-fetch-head --no-auto-maintenance ${HEAD_BUNDLE_INSIDE} "+${HEAD_REF}:refs/remotes/origin/$3"
fi
git checkout --quiet --no-track -B "$3" "$4"
`

export async function checkOut(
  { git, cache }: CheckoutPorts,
  workspace: GitWorkspace,
  signal: AbortSignal,
  logToRun?: LogToRun,
  onTurn?: () => void,
): Promise<Result<CheckedOut>> {
  const { job, repository } = workspace
  const work = async (mirror: string): Promise<Result<CheckedOut>> => {
    const startPoint = await findStart(git, mirror, job)
    if (!startPoint.ok) return startPoint
    const tasks = [
      cloneInside(git, workspace, mirror, startPoint.value, signal),
      // An agent whose work can't be pushed would work in vain.
      mayPush(git, pushBy(workspace, mirror, startPoint.value, signal)),
      findHosts(git, workspace, mirror, startPoint.value, signal),
    ] as const
    // The mirror must not be free, or fetched again, before the last of them has ended.
    await Promise.allSettled(tasks)
    const [cloning, permission, finding] = tasks
    const access = await permission
    if (!access.ok) return access
    const [first, reachable] = await Promise.all([cloning, finding])
    const withHosts = (checked: Result<CheckedOut>): Result<CheckedOut> =>
      checked.ok && reachable !== undefined ? yes({ ...checked.value, reachable }) : checked
    if (first.result.ok) return withHosts(first.result)
    if (signal.aborted) return no('conflict', 'the checkout was stopped')
    if (first.damaged !== 'mirror') return first.result
    // Git notices a damaged mirror only when it reads the damaged object: then fetch everything again, once.
    const renewed = await cache.refetch(repository, signal)
    if (!renewed.ok) return renewed
    return withHosts((await cloneInside(git, workspace, mirror, startPoint.value, signal)).result)
  }
  return cache.use(repository, signal, work, whileBeginning(job.limits, logToRun), onTurn)
}

const pushBy = (
  { job, repository }: GitWorkspace,
  folder: string,
  { commit: head }: StartPoint,
  signal: AbortSignal,
) => ({ folder, repository, branch: job.branch, head, signal })

/** The lock files are those of the base, never those of an earlier attempt. */
function findHosts(
  git: Git,
  { job, repository, folders: { staging } }: GitWorkspace,
  folder: string,
  { from: { base: commit } }: StartPoint,
  signal: AbortSignal,
) {
  return findReachableHosts(git, { job, repository, folder, staging, commit, signal })
}

function cloneInside(
  git: Git,
  { job, repository, folders, sandbox }: GitWorkspace,
  mirror: string,
  { commit, baseTip, from }: StartPoint,
  signal: AbortSignal,
): Promise<SourceAttempt<CheckedOut>> {
  const { name, email } = COMMITTER
  const origin = originInside(repository.remote.address)
  const command = scriptCommand(CHECKOUT_SCRIPT, job.base, origin, job.branch, commit, name, email)
  const source = {
    mirror,
    headMirror: mirror,
    branch: job.base,
    base: baseTip,
    head: commit,
    staging: folders.staging,
    isRepeatable: true,
    signal,
  }
  return withCheckoutSource<CheckedOut>(git, source, async (mounts: readonly SourceMount[]) => {
    const ran = await sandbox.run(command, { mounts, timeoutMs: CHECKOUT_MS_MAX })
    const fault = failureOf(ran)
    if (fault === undefined) return { result: yes(from) }
    return { result: checkoutFailed(job, fault), ...judgeFailure(ran) }
  })
}

function checkoutFailed(job: Job, fault: string) {
  return no('failed', `checking out ${job.repo.remote} failed: ${fault}`)
}

// ---- where the work starts -----------------------------------------------------------------------------------------

interface StartPoint {
  /** The commit to check out. */
  readonly commit: string
  /** The newest commit of the base branch. */
  readonly baseTip: string
  readonly from: CheckedOut
}

async function findStart(git: Git, folder: string, job: Job): Promise<Result<StartPoint>> {
  const [base, before] = await Promise.all(
    [job.base, job.branch].map((branch) => readRef(folder, `refs/heads/${branch}`)),
  )
  if (base === undefined) {
    const cure = `it has no branch ${job.base}; push it, or set defaultBranch to one that is there`
    return unreadableRemote(job.repo.remote, cure, 'unknown')
  }
  if (before === undefined) return yes({ commit: base, baseTip: base, from: { base } })
  return continueBranch(git, folder, job, base, before)
}

async function continueBranch(
  git: Git,
  folder: string,
  job: Job,
  base: string,
  pushedBefore: string,
): Promise<Result<StartPoint>> {
  const ran = await git.run({
    args: ['merge-base', base, pushedBefore],
    folder,
    timeoutMs: LOCAL_MS_MAX,
  })
  if (!ran.ok) return ran
  const fork = ran.value.output.trim()
  if (ran.value.code !== 0 || fork === '') {
    const message = `the branch ${job.branch} of ${job.repo.remote} shares no history with ${job.base}; rename or delete it`
    return { ok: false, refusal: { kind: 'conflict', message, failure: 'configuration' } }
  }
  if (fork === pushedBefore) return yes({ commit: base, baseTip: base, from: { base, pushedBefore } })
  const from = { base: fork, pushedBefore, ...(fork === base ? {} : { baseTip: base }) }
  return yes({ commit: pushedBefore, baseTip: base, from })
}

// ---- damage --------------------------------------------------------------------------------------------------------

const READ_MS_MAX = 15 * 60_000

/** $1 the commit at which the work began, $2 the run's branch, which has the work where HEAD has none */
const READ_SCRIPT = `
export GIT_NO_REPLACE_OBJECTS=1
cd /work
closed=$(find .git \\( -type d ! -perm -500 -o -type f ! -perm -400 \\) 2> /dev/null | head -n 1)
if [ -n "$closed" ]; then echo "fatal: $closed: Permission denied"; exit 1; fi
git ls-files > /dev/null
ref=HEAD
head=$(git rev-parse --verify 'HEAD^{commit}') || head=
if [ -z "$head" ] || git merge-base --is-ancestor "$head" "$1"; then
  if git rev-parse --verify --quiet "refs/heads/$2^{commit}" > /dev/null; then ref="refs/heads/$2"; fi
fi
head=$(git rev-parse --verify "$ref^{commit}")
git ls-tree -r -t "$head" > /dev/null
if ! git merge-base --is-ancestor "$head" "$1"; then git bundle create --quiet - "$ref" "^$1" > /dev/null; fi
`

/**
 * Says what is damaged in a checkout, if anything is, by reading what a collection reads: the index, the files of the
 * newest commit, and the commits beyond the base. Nothing is written, so a full disk is no damage. A verdict drops the
 * work for good, so only what git calls corrupt counts: a machine without processes or threads says nothing about it. A
 * file that its user may not read is corrupt to git, so such files are looked for first.
 */
export async function findDamage(
  sandbox: GitWorkspace['sandbox'],
  { base, branch }: { readonly base: string; readonly branch: string },
): Promise<string | undefined> {
  const read = await sandbox.run(scriptCommand(READ_SCRIPT, base, branch), { timeoutMs: READ_MS_MAX })
  const isEnded = read.startFailure === undefined && read.timedOutMinutes === undefined
  if (!isEnded || read.code === undefined || read.code === 0) return undefined
  const { errorKind } = explainFailure('reading the checkout', read.output)
  return errorKind === 'corrupt' ? lastLines(read.output) : undefined
}
