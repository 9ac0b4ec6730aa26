/**
 * `beginFollowUp` checks a pull request's branch out and rebases it; `postCommentOnce` posts the comment at the end.
 *
 * A follow-up pushes at most once, even if it is interrupted and repeated on another worker: the pushed commit carries
 * the follow-up's seal in its header, and a later attempt that finds the seal pushes nothing. The code host's state
 * decides where the work begins, also again when somebody pushed meanwhile. `follow-up-push.ts` pushes the result.
 */
import type { CodeHost } from '../../../core/ports/code-host.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { Job } from '../../../protocol/frames.ts'
import { judgeFailure, type SourceAttempt, withCheckoutSource } from '../checkout/checkout-source.ts'
import { findReachableHosts } from '../checkout/lock-files.ts'
import { COMMITTER, failureOf, scriptCommand } from '../git-inside-sandbox.ts'
import type { FollowUpStart, LogToRun } from '../git-ports.ts'
import type { MirrorCache } from '../mirror/mirror-cache.ts'
import { mayPush } from '../publish/push.ts'
import { originInside, type PullRepositories } from '../resolve-remote.ts'
import {
  type Attempt,
  isTransientRefusal,
  pause,
  type RetryPorts,
  whileBeginning,
  whilePublishing,
  withRetries,
} from '../retry.ts'
import {
  type BranchHeads,
  describeSource,
  type FollowUpContext,
  type FollowUpGitPorts,
  type MirrorFolders,
  parseAnswers,
  parseCommit,
  readBranchHeads,
  type ScriptAnswers,
  withBothMirrors,
} from './follow-up-context.ts'
import { PREPARE_SCRIPT } from './follow-up-scripts.ts'

type PrepareMode = 'retained' | 'aside' | 'fresh'

const CHECKOUT_MS_MAX = 15 * 60_000
const PRESERVED_LISTED_MAX = 10
const FILES_LISTED_MAX = 50
const ALREADY_PUSHED = { state: 'pushed', tip: undefined, conflictFiles: [], preserved: [] } as const

export async function beginFollowUp(
  { git, cache }: FollowUpGitPorts,
  context: FollowUpContext,
  isRetained: boolean,
  signal: AbortSignal,
): Promise<Result<FollowUpStart>> {
  const begin = async (folders: MirrorFolders): Promise<Result<FollowUpStart>> => {
    const heads = await readBranchHeads(git, folders, context)
    if (!heads.ok) return heads
    const { isPushed, ...commits } = heads.value
    if (isPushed) return yes({ ...commits, ...ALREADY_PUSHED, isNewCheckout: !isRetained })
    const access = await checkForkAccess(git, context, folders, commits, signal)
    if (!access.ok) return access
    const reachable = await findHosts(git, context, folders, commits, signal)
    const started = (start: Pick<FollowUpStart, 'isNewCheckout'>, answers: ScriptAnswers) =>
      parseStart(context, { ...commits, ...start, ...reachable }, answers)
    const prepare = (mode: PrepareMode) => prepareInside(git, context, folders, commits, mode, signal)
    const { result: first, damaged } = await prepare(isRetained ? 'retained' : 'fresh')
    if (first.ok) return started({ isNewCheckout: !isRetained }, first.value)
    if (signal.aborted) return first
    // Either the agent left an unusable checkout, or the worker's mirror is damaged.
    if (damaged === undefined || (damaged === 'checkout' && !isRetained)) return first
    const renewed =
      damaged === 'mirror' ? await refetchMirrors(cache, context.repositories, signal) : yes(undefined)
    if (!renewed.ok) return renewed
    const { result: second } = await prepare(isRetained ? 'aside' : 'fresh')
    return second.ok ? started({ isNewCheckout: true }, second.value) : second
  }
  const longRetry = whileBeginning(context.job.limits, context.logToRun)
  return withBothMirrors(cache, context, signal, begin, longRetry)
}

/** The lock files are those of the base, never of the pull request's branch. */
async function findHosts(
  git: FollowUpGitPorts['git'],
  { job, repositories, folders: { staging } }: FollowUpContext,
  folders: MirrorFolders,
  { base }: BranchHeads,
  signal: AbortSignal,
): Promise<Pick<FollowUpStart, 'reachable'>> {
  const place = { folder: folders.base, commit: base, staging, signal }
  const reachable = await findReachableHosts(git, { job, repository: repositories.base, ...place })
  return reachable === undefined ? {} : { reachable }
}

/** Checks the permission to push to a fork before an agent starts, because otherwise its work would be in vain. */
async function checkForkAccess(
  git: FollowUpGitPorts['git'],
  { pull, repositories }: FollowUpContext,
  folders: MirrorFolders,
  { head }: BranchHeads,
  signal: AbortSignal,
): Promise<Result<void>> {
  if (repositories.head === repositories.base) return yes(undefined)
  const push = { folder: folders.head, repository: repositories.head, branch: pull.headBranch, head, signal }
  const permission = await mayPush(git, push)
  if (permission.ok) return permission
  return no(
    'forbidden',
    `${pull.headRemote} is a fork that cannot be pushed to: have its owner allow edits by maintainers on the pull request, or follow this one up by hand (${permission.refusal.message})`,
  )
}

async function refetchMirrors(cache: MirrorCache, { base, head }: PullRepositories, signal: AbortSignal) {
  const renewed = await cache.refetch(base, signal)
  return renewed.ok && head !== base ? cache.refetch(head, signal) : renewed
}

/** Runs the script that prepares the checkout; returns its answers. */
function prepareInside(
  git: FollowUpGitPorts['git'],
  context: FollowUpContext,
  folders: MirrorFolders,
  { base, head }: BranchHeads,
  mode: PrepareMode,
  signal: AbortSignal,
): Promise<SourceAttempt<ScriptAnswers>> {
  const { pull, number, repositories } = context
  const origin = originInside(repositories.base.remote.address)
  const { name, email } = COMMITTER
  const command = scriptCommand(
    PREPARE_SCRIPT,
    mode,
    pull.baseBranch,
    base,
    pull.headBranch,
    head,
    origin,
    name,
    email,
    String(number),
  )
  // The other modes say what they have saved, and only the first time.
  const isRepeatable = mode === 'fresh'
  const source = { ...describeSource(context, folders, { base, head }, signal), isRepeatable }
  return withCheckoutSource<ScriptAnswers>(git, source, async (mounts) => {
    const result = await context.sandbox.run(command, { mounts, timeoutMs: CHECKOUT_MS_MAX })
    const fault = failureOf(result)
    if (fault === undefined) return { result: yes(parseAnswers(result.output)) }
    const message = `checking out ${pull.headBranch} of ${pull.headRemote} failed: ${fault}`
    return { result: no('failed', message), ...judgeFailure(result) }
  })
}

function parseStart(
  { pull }: FollowUpContext,
  start: BranchHeads & Pick<FollowUpStart, 'isNewCheckout' | 'reachable'>,
  answers: ScriptAnswers,
): Result<FollowUpStart> {
  const [state] = answers('state')
  if (state === 'unrelated') {
    return no(
      'conflict',
      `the branch ${pull.headBranch} shares no history with ${pull.baseBranch}, so it cannot be rebased; follow this one up by hand`,
    )
  }
  if (state !== 'current' && state !== 'rebased' && state !== 'conflict')
    return no('failed', `checking out ${pull.headBranch} did not say how it ended; try again`)
  const preserved = [...answers('branch'), ...answers('folder')].slice(0, PRESERVED_LISTED_MAX)
  const conflictFiles = answers('file').slice(0, FILES_LISTED_MAX)
  const tip = parseCommit(answers('tip'))
  const merges = answers('merge').filter((merge) => parseCommit([merge]) !== undefined)
  return yes({ ...start, state, tip, conflictFiles, preserved, ...(merges.length === 0 ? {} : { merges }) })
}

// ---- the comment ---------------------------------------------------------------------------------------------------

export interface CommentTarget {
  readonly codehost: CodeHost
  readonly remote: string
  readonly number: number
  readonly logToRun?: LogToRun | undefined
  readonly job: Pick<Job, 'limits' | 'retentionHours'>
}

/** Whether the comment is posted already. Deletes all repetitions of a comment but the first. */
export async function hasFollowUpComment(
  ports: RetryPorts,
  target: CommentTarget,
  marker: string,
  signal: AbortSignal,
): Promise<Result<boolean>> {
  const attempt = async (): Promise<Attempt<boolean>> => {
    const found = await target.codehost.hasComment(target.remote, target.number, marker)
    return { result: found, isTransient: !found.ok && isTransientRefusal(found.refusal.kind) }
  }
  const result = await withRetries(ports, signal, attempt, whilePublishing(target.job, target.logToRun))
  if (result.ok && result.value && !signal.aborted) await deleteDuplicates(target, marker)
  return result
}

/** GitHub ends a request after 10 s and completes nearly all in 1 s; taking over a lease takes some time, too. */
const TAKE_OVER_DELAY_MS = 5_000

interface FollowUpComment {
  readonly marker: string
  readonly body: string
  /** Whether an earlier attempt may have sent the comment already. */
  readonly isTakenOver: boolean
}

/**
 * Posts the one comment of a follow-up. Each attempt first searches for the comment's marker: the response to an
 * earlier attempt may have been lost, or another worker may have posted the comment.
 *
 * The code host may process a request of a dead worker after that search. Therefore a worker that takes a follow-up
 * over waits a moment before it posts, and whoever finds or posts the comment deletes all repetitions but the first.
 */
export async function postCommentOnce(
  ports: RetryPorts,
  target: CommentTarget,
  { marker, body, isTakenOver }: FollowUpComment,
  mayContinue: () => boolean,
  signal: AbortSignal,
): Promise<Result<void>> {
  const { codehost, remote, number, logToRun, job } = target
  let mayBeInFlight = isTakenOver
  const attempt = async (): Promise<Attempt<void>> => {
    const found = await codehost.hasComment(remote, number, marker)
    if (!found.ok) return { result: found, isTransient: isTransientRefusal(found.refusal.kind) }
    if (found.value) return { result: yes(undefined), isTransient: false }
    if (mayBeInFlight) {
      mayBeInFlight = false
      await pause(TAKE_OVER_DELAY_MS, ports.clock, signal)
      return attempt()
    }
    if (signal.aborted || !mayContinue()) return { result: leaseGone, isTransient: false }
    const posted = await codehost.comment(remote, number, body)
    return { result: posted, isTransient: !posted.ok && isTransientRefusal(posted.refusal.kind) }
  }
  const posted = await withRetries(ports, signal, attempt, whilePublishing(job, logToRun))
  if (posted.ok && !signal.aborted) await deleteDuplicates(target, marker)
  return posted
}

/** Only logs failures: the comment is posted, and that is enough. */
async function deleteDuplicates(
  { codehost, remote, number, logToRun }: CommentTarget,
  marker: string,
): Promise<void> {
  // Search at the start of a line, because a person may quote the marker.
  const dropped = await codehost.dropRepeats(remote, number, `\n${marker}`)
  if (!dropped.ok)
    logToRun?.(`repeated comments of the follow-up could not be deleted: ${dropped.refusal.message}`)
  else if (dropped.value > 0)
    logToRun?.('the follow-up’s comment existed more than once; only the first was kept')
}

const leaseGone = no(
  'conflict',
  'the lease is gone, so the follow-up’s comment is left to the next holder of the lease',
)
