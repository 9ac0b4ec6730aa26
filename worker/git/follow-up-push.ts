/**
 * `pushFollowUp` pushes the work of a follow-up to the branch of its pull request, over the commit that it began from.
 * Reviewers may ask for commits to be joined or dropped, so the work may leave out earlier ones.
 *
 * When somebody else pushed meanwhile, the work is moved onto those commits and pushed again, a limited number of times.
 */
import { no, type Result, yes } from '../../core/result.ts'
import type { JobPull } from '../../protocol/frames.ts'
import { refuseKeys } from '../secrets/found-keys.ts'
import { withCheckoutSource } from './checkout-source.ts'
import { INSIDE_MS_MAX } from './collect.ts'
import { readBranchHeads } from './follow-up-branches.ts'
import { collectFollowUp } from './follow-up-collect.ts'
import {
  describeSource,
  type FollowUpContext,
  type FollowUpGitPorts,
  parseAnswers,
  parseCommit,
  withBothMirrors,
} from './follow-up-context.ts'
import { MOVE_ONTO_SCRIPT } from './follow-up-scripts.ts'
import { withSignal } from './git.ts'
import { COMMITTER, failureOf, scriptCommand } from './git-inside-sandbox.ts'
import type {
  FollowUpPushRequest,
  FollowUpPushResult,
  FollowUpStart,
  SandboxCommandResult,
} from './git-ports.ts'
import { pushOnce, readRemoteCommit } from './push.ts'
import { type Attempt, isTransientRefusal, whilePublishing, withRetries } from './retry.ts'

/** The number of attempts to push while other people push to the same branch. */
const PUSHES_MAX = 3

const NOTHING_PUSHED = { pushed: undefined, diff: undefined }

export async function pushFollowUp(
  ports: FollowUpGitPorts,
  context: FollowUpContext,
  {
    start,
    onMoved,
    within = (step) => step(signal),
  }: Pick<FollowUpPushRequest, 'start' | 'onMoved' | 'within'>,
  mayContinue: () => boolean,
  signal: AbortSignal,
): Promise<Result<FollowUpPushResult>> {
  let from = start
  for (let tries = 1; ; tries++) {
    const begun = from
    const collected = await within((time) =>
      collectFollowUp({ ...ports, git: withSignal(ports.git, time) }, context, begun, time),
    )
    if (!collected.ok) return collected
    const { head, diff, isContained, heldBack, keys = [] } = collected.value
    const allowed = refuseKeys(context.job, keys)
    if (!allowed.ok) return allowed
    const held = heldBack === undefined ? {} : { heldBack }
    if (head === undefined) return yes({ ...NOTHING_PUSHED, isContained, ...held })
    const pushed = await pushWithLease(ports, context, { head, expected: from.head, mayContinue, signal })
    if (!pushed.ok) return pushed
    if (pushed.value === 'pushed') return yes({ pushed: head, isContained: false, diff, ...held })
    if (tries === PUSHES_MAX) return branchOvertaken(context.pull)
    const moved = await moveOnto(ports, context, from, signal)
    if (!moved.ok) return moved
    // Another attempt of the same follow-up has already pushed.
    if (moved.value.state === 'pushed')
      return yes({ pushed: moved.value.head, isContained: false, diff, ...held })
    from = moved.value
    await onMoved?.(from)
  }
}

interface PushAttempt {
  readonly head: string
  readonly expected: string
  readonly mayContinue: () => boolean
  readonly signal: AbortSignal
}

function pushWithLease(
  ports: FollowUpGitPorts,
  { job, pull, repositories, folders, logToRun }: FollowUpContext,
  { head, expected, mayContinue, signal }: PushAttempt,
): Promise<Result<'pushed' | 'overtaken'>> {
  const attempt = async (): Promise<Attempt<'pushed' | 'overtaken'>> => {
    if (signal.aborted || !mayContinue()) return { result: leaseGone, isTransient: false }
    const push = {
      repository: repositories.head,
      branch: pull.headBranch,
      head,
      expected,
      staging: folders.staging,
      signal,
    }
    const done = await pushOnce(ports.git, push)
    if (done.is === 'pushed') return { result: yes('pushed'), isTransient: false }
    if (done.is === 'refused') return done
    const remoteCommit = await readRemoteCommit(ports.git, repositories.head.remote, pull.headBranch, signal)
    if (!remoteCommit.ok)
      return { result: remoteCommit, isTransient: isTransientRefusal(remoteCommit.refusal.kind) }
    // The branch already has our commit if an earlier attempt succeeded but its response was lost.
    return { result: yes(remoteCommit.value === head ? 'pushed' : 'overtaken'), isTransient: false }
  }
  return withRetries(ports, signal, attempt, whilePublishing(job, logToRun))
}

const leaseGone = no(
  'conflict',
  'the lease is gone, so nothing more is pushed; the work stays in its sandbox',
)

/** Moves the work onto the commits that somebody else pushed meanwhile. */
async function moveOnto(
  { git, cache }: FollowUpGitPorts,
  context: FollowUpContext,
  from: FollowUpStart,
  signal: AbortSignal,
): Promise<Result<FollowUpStart>> {
  return withBothMirrors<FollowUpStart>(cache, context, signal, async (folders) => {
    const heads = await readBranchHeads(git, folders, context)
    if (!heads.ok) return heads
    const { base, head, isPushed } = heads.value
    if (isPushed) return yes({ ...from, head, state: 'pushed' })
    const { pull, sandbox } = context
    const { name, email } = COMMITTER
    const command = scriptCommand(
      MOVE_ONTO_SCRIPT,
      pull.baseBranch,
      base,
      from.base,
      pull.headBranch,
      head,
      from.head,
      from.tip ?? '',
      name,
      email,
    )
    const source = describeSource(context, folders, { base, head }, signal)
    const { result } = await withCheckoutSource<SandboxCommandResult>(git, source, async (mounts) => {
      const ran = await sandbox.run(command, { mounts, timeoutMs: INSIDE_MS_MAX })
      return { result: yes(ran) }
    })
    if (!result.ok) return result
    const fault = failureOf(result.value)
    if (fault !== undefined) return no('failed', `going on from what was pushed meanwhile failed: ${fault}`)
    const answers = parseAnswers(result.value.output)
    if (answers('state')[0] !== 'moved') return branchOvertaken(pull)
    const newBase = parseCommit(answers('base')) === base ? base : from.base
    const isHeadOurs = answers('branch')[0] === 'ours'
    return yes({ ...from, head, base: newBase, tip: parseCommit(answers('tip')), isHeadOurs })
  })
}

function branchOvertaken({ headBranch, headRemote }: JobPull) {
  return no(
    'conflict',
    `somebody else changed ${headBranch} of ${headRemote} in the meantime, and the two do not go together by themselves; it is left as they made it: follow up again to go on from there`,
  )
}
