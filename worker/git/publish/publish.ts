/**
 * `publish` pushes a run's work and opens its pull request.
 *
 * The push names the commit that it expects to replace, so it never overwrites the work of a person or of a newer
 * attempt. Before each step `mayContinue` checks the lease. Each step may be repeated after a crash: it finds an
 * existing push or pull request and adopts it.
 */
import type { CodeHost, NewPullRequest, OpenPullRequest } from '../../../core/ports/code-host.ts'
import { no, type Refused, type Result, yes } from '../../../core/result.ts'
import type { Job } from '../../../protocol/frames.ts'
import { keysInText, type MarkedKey, placesOf, refuseKeys } from '../../secrets/key-forms.ts'
import { createRunSecretSearch, explainFoundSecret, type OwnSecrets } from '../../secrets/run-secrets.ts'
import { runRepositoryPath } from '../checkout/run-repository.ts'
import type { Git } from '../git.ts'
import { refusedCodeHostToken } from '../git-errors.ts'
import type { CheckedOut, HeldBackChanges, LogToRun, PublishedPull, RunFolders } from '../git-ports.ts'
import type { RemoteRepository } from '../mirror/mirror-cache.ts'
import { type Attempt, isTransientRefusal, type RetryPorts, whilePublishing, withRetries } from '../retry.ts'
import { pullBody, pullTitle } from './pull-request-text.ts'
import { NO_COMMIT, pushOnce, readRemoteCommit } from './push.ts'

export interface PublishPorts extends RetryPorts {
  readonly git: Git
  readonly ownSecrets?: OwnSecrets
}

export interface PublishContext {
  readonly job: Job
  readonly leaseId: string
  readonly folders: RunFolders
  readonly from: CheckedOut
  readonly head: string
  readonly summary: string
  readonly heldBack?: HeldBackChanges
  readonly readFirst?: readonly string[] | undefined
  /** Findings of what looks like keys in the commits. */
  readonly keys?: readonly MarkedKey[] | undefined
  readonly repository: RemoteRepository
  readonly codehost: CodeHost
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
  readonly logToRun?: LogToRun
}

const PULL_TEXT = 'the text for the pull request'
const QUERY_MS_MAX = 60_000
/** A conflict means that a pull request was opened since the search; the next search finds it, perhaps with a delay. */
const CONFLICTS_MAX = 3

export async function publish(ports: PublishPorts, context: PublishContext): Promise<Result<PublishedPull>> {
  const searched = searchPullText(ports, context)
  if (!searched.ok) return searched
  const expected = context.from.pushedBefore ?? NO_COMMIT
  const { signal, logToRun } = context
  const pushed = await withRetries(
    ports,
    signal,
    () => pushBranch(ports.git, context, expected),
    whilePublishing(context.job, logToRun),
  )
  if (!pushed.ok) return pushed
  const pull = await ensurePull(ports, context)
  if (!pull.ok) return explainNoPull(context, pull)
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

/** The branch has an unexpected commit: ours, one that an agent pushed itself, or somebody else's. */
async function handleMovedBranch(
  git: Git,
  context: PublishContext,
  expected: string,
): Promise<Attempt<void>> {
  const { job, head, repository, from, signal } = context
  const remoteCommit = await readRemoteCommit(git, repository.remote, job.branch, signal)
  if (!remoteCommit.ok)
    return { result: remoteCommit, isTransient: isTransientRefusal(remoteCommit.refusal.kind) }
  // An earlier attempt succeeded, but its response was lost.
  if (remoteCommit.value === head) return { result: yes(undefined), isTransient: false }
  const isFirstMove = expected === (from.pushedBefore ?? NO_COMMIT)
  // An agent with push access has pushed a part of this work: pushing on top of it loses nothing.
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
    `somebody else changed the branch ${job.branch} in the meantime: it ${now} on the code host, and is left as it is; delete or rename it there to have this work published`,
  )
}

// ---- the pull request ------------------------------------------------------------------------------------------------

type EnsuredPull = OpenPullRequest & { readonly adopted: boolean }

/** Searches before each attempt to open one, because the response to an earlier attempt may have been lost. */
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
  const { signal, logToRun, job } = context
  return withRetries(ports, signal, attempt, whilePublishing(job, logToRun))
}

/** The token may push and yet not open pull requests, which no run can change. */
function explainNoPull({ job }: PublishContext, refused: Refused): Refused {
  const { kind, failure } = refused.refusal
  const isAboutRights = failure === undefined && (kind === 'unauthorized' || kind === 'forbidden')
  return isAboutRights && job.codehost !== undefined
    ? refusedCodeHostToken(job.codehost.driver, refused)
    : refused
}

function findPull({ codehost, job }: PublishContext): Promise<Result<OpenPullRequest | undefined>> {
  return codehost.findPull(job.repo.remote, job.branch, job.base)
}

/** Before the push, so that a secret in the text publishes nothing at all. The commits were searched when they were collected. */
function searchPullText({ ownSecrets }: PublishPorts, context: PublishContext): Result<void> {
  const search = createRunSecretSearch(context.job, ownSecrets)
  const { title, body } = newPullRequest(context)
  const text = `${title}\n${body}`
  const secret = search.findIn(text)
  if (secret === undefined)
    return refuseKeys(context.job, [...(context.keys ?? []), ...keysInText(text, PULL_TEXT)])
  return no('invalid', explainFoundSecret(search, secret, PULL_TEXT, PULL_TEXT))
}

function newPullRequest({
  job,
  leaseId,
  summary,
  heldBack,
  readFirst,
  keys = [],
}: PublishContext): NewPullRequest {
  const { ticket, id } = job.run
  return {
    remote: job.repo.remote,
    head: job.branch,
    base: job.base,
    title: pullTitle(ticket),
    body: pullBody(
      ticket,
      summary,
      { runId: id, leaseId },
      { closesIssue: job.codehost?.closesIssue, heldBack, readFirst, keys: placesOf(keys) },
    ),
    draft: job.codehost?.draftPulls ?? false,
  }
}

// ---- permission ------------------------------------------------------------------------------------------------------

const leaseGone = no(
  'conflict',
  'the lease is gone, so nothing more is published; the work stays in its sandbox',
)

function mayPublish({ mayContinue, signal }: PublishContext): boolean {
  return !signal.aborted && mayContinue()
}
