/**
 * The last steps, which others can see: the push, and the pull request.
 *
 * A push names the commit that it expects to replace, so neither a person's work nor a newer attempt's is overwritten.
 * Before each step the lease is asked for. Every step may be repeated after a crash: what is there already is found
 * and taken for done.
 */
import type { CodeHost, NewPullRequest, OpenPullRequest } from '../../core/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import type { Job } from '../../protocol/frames.ts'
import type { Git } from './git.ts'
import type { CheckedOut, LogToRun, PublishedPull, RunFolders } from './git-ports.ts'
import type { RemoteRepository } from './mirror-cache.ts'
import { pullBody, pullTitle } from './pull-request-text.ts'
import { NO_COMMIT, pushOnce, readRemoteCommit } from './push.ts'
import { type Attempt, isTransientRefusal, type RetryPorts, whilePublishing, withRetries } from './retry.ts'
import { runRepositoryPath } from './run-repository.ts'

export interface PublishPorts extends RetryPorts {
  readonly git: Git
}

export interface PublishContext {
  readonly job: Job
  readonly leaseId: string
  readonly folders: RunFolders
  readonly from: CheckedOut
  readonly head: string
  readonly summary: string
  readonly repository: RemoteRepository
  readonly codehost: CodeHost
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
  readonly logToRun?: LogToRun
}

const QUERY_MS_MAX = 60_000
/** Somebody opened one since we looked: then it is found, if not at once. */
const CONFLICTS_MAX = 3

export async function publish(ports: PublishPorts, context: PublishContext): Promise<Result<PublishedPull>> {
  const expected = context.from.pushedBefore ?? NO_COMMIT
  const { signal, logToRun } = context
  const pushed = await withRetries(
    ports,
    signal,
    () => pushBranch(ports.git, context, expected),
    whilePublishing(logToRun),
  )
  if (!pushed.ok) return pushed
  const pull = await ensurePull(ports, context)
  if (!pull.ok) return pull
  const { adopted, url, state } = pull.value
  return yes({ pushed: context.head, prUrl: url, prState: state, adopted })
}

// ---- pushing -------------------------------------------------------------------------------------------------------

async function pushBranch(git: Git, context: PublishContext, expected: string): Promise<Attempt<void>> {
  const { job, head, repository, folders, signal } = context
  if (!mayPublish(context)) return { result: leaseGone, isTransient: false }
  const pushed = await pushOnce(git, {
    repository,
    branch: job.branch,
    head,
    expected,
    staging: folders.staging,
    signal,
  })
  if (pushed.is === 'pushed') return { result: yes(undefined), isTransient: false }
  return pushed.is === 'overtaken' ? handleMovedBranch(git, context, expected) : pushed
}

/** Another commit is there than was expected. Whose it is decides. */
async function handleMovedBranch(
  git: Git,
  context: PublishContext,
  expected: string,
): Promise<Attempt<void>> {
  const { job, head, repository, from, signal } = context
  const remoteCommit = await readRemoteCommit(git, repository.remote, job.branch, signal)
  if (!remoteCommit.ok)
    return { result: remoteCommit, isTransient: isTransientRefusal(remoteCommit.refusal.kind) }
  // An earlier try of ours that came through without our hearing of it.
  if (remoteCommit.value === head) return { result: yes(undefined), isTransient: false }
  const isFirstMove = expected === (from.pushedBefore ?? NO_COMMIT)
  // An agent that may push has pushed a part of this work: nothing is lost by what goes on from there.
  if (
    isFirstMove &&
    remoteCommit.value !== undefined &&
    (await isPartOfWork(git, context, remoteCommit.value))
  ) {
    return pushBranch(git, context, remoteCommit.value)
  }
  return { result: branchOvertaken(job, remoteCommit.value), isTransient: false }
}

async function isPartOfWork(
  git: Git,
  { folders, head, signal }: PublishContext,
  commit: string,
): Promise<boolean> {
  const ran = await git.run({
    args: ['merge-base', '--is-ancestor', commit, head],
    folder: runRepositoryPath(folders.staging),
    isUntrusted: true,
    timeoutMs: QUERY_MS_MAX,
    signal,
  })
  return ran.ok && ran.value.code === 0
}

function branchOvertaken(job: Job, remoteCommit: string | undefined) {
  const now = remoteCommit === undefined ? 'is gone' : `stands at ${remoteCommit.slice(0, 12)}`
  return no(
    'conflict',
    `somebody else changed the branch ${job.branch} in the meantime: it ${now} on the code host, and is left as it is; start the run again to go on from there`,
  )
}

// ---- the pull request ------------------------------------------------------------------------------------------------

type EnsuredPull = OpenPullRequest & { readonly adopted: boolean }

/** Looked for before each try to open one: the answer to an earlier try may have been lost. */
async function ensurePull(ports: PublishPorts, context: PublishContext): Promise<Result<EnsuredPull>> {
  let tries = 0
  let conflicts = 0
  const attempt = async (): Promise<Attempt<EnsuredPull>> => {
    const found = await findPull(context)
    if (!found.ok) return { result: found, isTransient: isTransientRefusal(found.refusal.kind) }
    if (found.value !== undefined) {
      return { result: yes({ ...found.value, adopted: tries === 0 }), isTransient: false }
    }
    if (!mayPublish(context)) return { result: leaseGone, isTransient: false }
    tries += 1
    const opened = await context.codehost.openPull(newPullRequest(context))
    if (opened.ok) return { result: yes({ ...opened.value, adopted: false }), isTransient: false }
    if (opened.refusal.kind === 'conflict')
      return { result: opened, isTransient: ++conflicts < CONFLICTS_MAX }
    return { result: opened, isTransient: isTransientRefusal(opened.refusal.kind) }
  }
  return withRetries(ports, context.signal, attempt, whilePublishing(context.logToRun))
}

function findPull({ codehost, job }: PublishContext): Promise<Result<OpenPullRequest | undefined>> {
  return codehost.findPull(job.repo.remote, job.branch, job.base)
}

function newPullRequest({ job, leaseId, summary }: PublishContext): NewPullRequest {
  const { ticket, id } = job.run
  return {
    remote: job.repo.remote,
    head: job.branch,
    base: job.base,
    title: pullTitle(ticket),
    body: pullBody(ticket, summary, { runId: id, leaseId }),
    draft: job.codehost?.draftPulls ?? false,
  }
}

// ---- going on --------------------------------------------------------------------------------------------------------

const leaseGone = no(
  'conflict',
  'the lease is gone, so nothing more is published; the work stays in its sandbox',
)

function mayPublish({ mayContinue, signal }: PublishContext): boolean {
  return !signal.aborted && mayContinue()
}
