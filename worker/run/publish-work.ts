/**
 * `publishNewWork` and `publishFollowUp` publish what an execution has finished: its commits, and a pull request or a
 * comment on one. The execution of the agent calls them, and later ones that only publish.
 */
import { no, type Refusal, type Refused, type Result, yes } from '../../core/result.ts'
import { followUpMarker } from '../../core/run/follow-up.ts'
import type { Job, JobFollowUp, JobPull } from '../../protocol/frames.ts'
import type { CheckedOut, FollowUpPushRequest, FollowUpPushResult, FollowUpStart } from '../git/git-ports.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { followUpBody, followUpText } from './follow-up-comment-text.ts'
import { LASTING_KINDS, publishOrKeep } from './publish-or-keep.ts'
import { reportHeldBack } from './report-held-back.ts'
import { askedOf, tryAgain, type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'
import type { PublishEnd, PublishedWork, PublishRequest } from './work-plan.ts'

type Dependencies = Pick<ExecutorDependencies, 'gitSources' | 'codehostFor'>

// ---- new runs ------------------------------------------------------------------------------------------------------

export interface NewWork {
  readonly job: Job
  readonly leaseId: string
  readonly from: CheckedOut
  /** The work as an earlier execution has left it. */
  readonly left?: UnpublishedWork
}

export function publishNewWork(
  dependencies: Dependencies,
  work: NewWork,
  request: PublishRequest,
): Promise<PublishEnd> {
  const { job, from, left } = work
  const { agentSummary: summary } = request
  const unpublished = left ?? { ...placeOf(job), from, asked: askedOf(job.run), summary }
  const toPublish = { unpublished, isLeft: left !== undefined, base: from.base }
  return publishOrKeep(dependencies, toPublish, request, () => pushAndOpenPull(dependencies, work, request))
}

async function pushAndOpenPull(
  { gitSources, codehostFor }: Dependencies,
  { job, leaseId, from, left }: NewWork,
  { session, time, agentSummary, addArtifact, mayContinue, signal }: PublishRequest,
): Promise<Result<PublishedWork | undefined>> {
  const { folders } = session
  const collected = await time.within((ending) => gitSources.collect(job, folders, session, from, ending))
  if (!collected.ok) return collected
  const { diff, head, heldBack } = collected.value
  // The log of the first execution has told both.
  if (left === undefined && diff.text !== '') session.log(diff.text)
  if (left === undefined && heldBack !== undefined) reportHeldBack(heldBack, { session, addArtifact })
  if (head === undefined) return yes(undefined)
  const codehost = codehostFor(job)
  if (!codehost.ok) return codehost
  const logToRun = (line: string) => session.log(line)
  const order = { job, leaseId, folders, from, collected: collected.value, summary: agentSummary, logToRun }
  const published = await gitSources.publish(order, codehost.value, mayContinue, signal)
  if (!published.ok) return published
  const { prUrl, prState, pushed } = published.value
  return yes({ prUrl, prState, pushed, branch: job.branch })
}

const placeOf = ({ repo: { remote }, branch }: Job): Pick<UnpublishedWork, 'remote' | 'branch'> => ({
  remote,
  branch,
})

// ---- the work of an earlier execution ------------------------------------------------------------------------------

export interface LeftWork extends Pick<NewWork, 'job' | 'leaseId'> {
  readonly left: UnpublishedWork
}

export async function publishLeftWork(
  dependencies: Dependencies,
  work: LeftWork,
  request: PublishRequest,
): Promise<PublishEnd> {
  const { job, left } = work
  if (left.from !== undefined) return publishNewWork(dependencies, { ...work, from: left.from }, request)
  const { pull, followUp } = job
  const { followUp: known } = left
  if (pull === undefined || followUp === undefined || known?.id !== followUp.id)
    return {
      published: no('conflict', 'the work in the sandbox is of another follow-up'),
      isUnpublished: true,
    }
  const { session, signal } = request
  const logToRun = (line: string) => session.log(line)
  const marker = followUpMarker(followUp.id)
  const hasComment = await dependencies.gitSources.followUps.hasComment(job, marker, signal, logToRun)
  if (!hasComment.ok) return { published: tryAgain(hasComment.refusal), isUnpublished: true }
  if (hasComment.value) {
    // The comment comes last, so a follow-up with a comment is complete.
    await unpublishedWork.forget(session.folders)
    return { published: yes(describeFollowUp({ job, pull })), isUnpublished: false }
  }
  const { start, isAsked } = known
  const asBefore = { job, pull, followUp, start, isAsked, hadSummary: true, left }
  return publishFollowUp(dependencies, asBefore, request)
}

// ---- follow-ups ----------------------------------------------------------------------------------------------------

export interface FollowUpWork extends Pick<NewWork, 'left'> {
  readonly job: Job
  readonly pull: JobPull
  readonly followUp: JobFollowUp
  readonly start: FollowUpStart
  /** An agent was asked. */
  readonly isAsked: boolean
  /** An earlier attempt on this worker reached its push. */
  readonly hadSummary: boolean
}

export function publishFollowUp(
  dependencies: Dependencies,
  work: FollowUpWork,
  request: PublishRequest,
): Promise<PublishEnd> {
  const { job, followUp, start, isAsked, left } = work
  const ofFollowUp = { id: followUp.id, start, isAsked }
  const unpublished = left ?? { ...placeOf(job), followUp: ofFollowUp, summary: request.agentSummary }
  const toPublish = { unpublished, isLeft: left !== undefined, base: start.base }
  return publishOrKeep(dependencies, toPublish, request, () => pushAndComment(dependencies, work, request))
}

async function pushAndComment(
  { gitSources }: Dependencies,
  work: FollowUpWork,
  request: PublishRequest,
): Promise<Result<PublishedWork | undefined>> {
  const { pull, start, isAsked, hadSummary, left } = work
  const { session, agentSummary } = request
  const pushed = await push({ gitSources }, work, request)
  if (!pushed.ok) return pushed
  const { diff, heldBack } = pushed.value
  if (left === undefined && diff !== undefined) session.log(diff.text)
  if (left === undefined && heldBack !== undefined) reportHeldBack(heldBack, request)
  const text = followUpText({ pull, start, pushResult: pushed.value, agentSummary })
  if (pushed.value.pushed === undefined && !isAsked && !hadSummary) {
    session.log(`${text} There is nothing to say on the pull request.`)
    return yes(describeFollowUp(work))
  }
  return comment({ gitSources }, work, request, pushed.value, text)
}

async function push(
  { gitSources }: Pick<Dependencies, 'gitSources'>,
  { job, start }: FollowUpWork,
  { session, time, mayContinue, signal }: PublishRequest,
): Promise<Result<FollowUpPushResult>> {
  if (start.state === 'pushed') return yes({ pushed: start.head, isContained: false, diff: undefined })
  const { folders } = session
  const onMoved = async (moved: FollowUpStart): Promise<void> => {
    const note = await unpublishedWork.read(folders)
    // A later attempt would take the moved branch for one that somebody else changed.
    if (!note.ok) throw new Error(note.refusal.message)
    const known = note.value
    if (known?.followUp !== undefined)
      await unpublishedWork.save(folders, { ...known, followUp: { ...known.followUp, start: moved } })
  }
  const logToRun = (line: string) => session.log(line)
  const within: FollowUpPushRequest['within'] = (step) => time.within(step)
  const pushRequest = { job, folders, sandbox: session, start, within, onMoved, logToRun }
  return gitSources.followUps.push(pushRequest, mayContinue, signal)
}

async function comment(
  { gitSources }: Pick<Dependencies, 'gitSources'>,
  work: FollowUpWork,
  request: PublishRequest,
  { pushed }: FollowUpPushResult,
  text: string,
): Promise<Result<PublishedWork>> {
  const { job, followUp, start, hadSummary } = work
  const marker = followUpMarker(followUp.id)
  const isTakenOver = start.state === 'pushed' || (hadSummary && pushed === undefined)
  const logToRun = (line: string) => request.session.log(line)
  const words = { job, marker, body: followUpBody(text, followUp.id), isTakenOver, logToRun }
  const guard = pushed === undefined ? request : request.afterPush
  const posted = await gitSources.followUps.postComment(words, guard.mayContinue, guard.signal)
  if (!posted.ok) return explainNoComment(posted.refusal)
  return yes(describeFollowUp(work, text, pushed))
}

function explainNoComment({ kind, message, keys, keysDigest }: Refusal): Refused {
  const { refusal } = no(kind, `the follow-up’s comment could not be posted: ${message}`)
  const digest = keysDigest === undefined ? {} : { keysDigest }
  const refused = keys === undefined ? refusal : { ...refusal, keys, ...digest }
  return LASTING_KINDS.has(kind) ? { ok: false, refusal } : tryAgain(refused)
}

/** Without a summary the run keeps its own. */
export function describeFollowUp(
  { job, pull }: Pick<FollowUpWork, 'job' | 'pull'>,
  summary?: string,
  pushed?: string,
): PublishedWork {
  const { prState } = job.run
  return {
    prUrl: pull.url,
    branch: pull.headBranch,
    ...(summary === undefined ? {} : { summary }),
    ...(prState === 'open' || prState === 'draft' ? { prState } : {}),
    ...(pushed === undefined ? {} : { pushed }),
  }
}
