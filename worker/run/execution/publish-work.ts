/**
 * `publishNewWork` and `publishFollowUp` publish what an execution has finished: its commits, and a pull request or a
 * comment on one. The execution of the agent calls them, and later ones that only publish.
 */
import { no, type Refusal, type Refused, type Result, yes } from '../../../core/result.ts'
import { followUpMarker } from '../../../core/run/follow-up.ts'
import { toSingleLine, truncate } from '../../../core/safe-text.ts'
import type { Job, JobFollowUp, JobPull } from '../../../protocol/frames.ts'
import { isDiskFull, messageOf } from '../../../protocol/message-of.ts'
import { findDamage } from '../../git/checkout/checkout.ts'
import { deleteBundle, type WorkBundle } from '../../git/checkout/run-repository.ts'
import type {
  CheckedOut,
  FollowUpPushRequest,
  FollowUpPushResult,
  FollowUpStart,
  HeldBackChanges,
} from '../../git/git-ports.ts'
import { describeHeldBack, HELD_BACK_ARTIFACT, noticesOf } from '../../git/publish/pull-request-text.ts'
import { closeCode, neutralizeMarkup } from '../../git/work/neutral-markup.ts'
import type { SandboxFolders } from '../disk/sandboxes.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
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

/** Reports changes that were held back: in the run's log, and as an artifact. */
function reportHeldBack(
  heldBack: HeldBackChanges,
  { session, addArtifact }: Pick<PublishRequest, 'session' | 'addArtifact'>,
): void {
  session.log(describeHeldBack(heldBack))
  addArtifact(HELD_BACK_ARTIFACT, heldBack.patch)
}

// ---- publishing or keeping -----------------------------------------------------------------------------------------

/** No later try changes these, unless a person changes the work, the branch or the words. */
const LASTING_KINDS: ReadonlySet<Refusal['kind']> = new Set(['conflict', 'invalid'])
/** The work itself is at fault, so it cannot be collected later either. */
const FAULTY_KINDS: ReadonlySet<Refusal['kind']> = new Set(['conflict', 'invalid', 'gone'])

interface WorkToPublish {
  readonly unpublished: UnpublishedWork
  /** An earlier execution has left the work in this sandbox, and remembered it. */
  readonly isLeft: boolean
  /** The commit at which the work starts. */
  readonly base: string
}

/**
 * Publishes finished work, and keeps the work that cannot be published.
 *
 * The work is remembered beside its sandbox before the first step, and forgotten when it is published. A refusal that
 * may pass gets the failure `publish`, so the host has the work published again. A lasting refusal ends the run, and a
 * person's retry publishes first. A damaged checkout, from which nothing can be collected, ends the run for good. The
 * commits of work that is refused become an artifact, so they outlive this machine.
 */
export async function publishOrKeep(
  { gitSources }: Pick<ExecutorDependencies, 'gitSources'>,
  { unpublished: { isHookDue, areOutputsDue: _, ...unpublished }, isLeft, base }: WorkToPublish,
  request: PublishRequest,
  publish: () => Promise<Result<PublishedWork | undefined>>,
): Promise<PublishEnd> {
  const { folders } = request.session
  // A full disk is no reason to keep the work from the code host.
  const isSaved =
    (isLeft && isHookDue !== true) || (await isWritten(unpublishedWork.save(folders, unpublished)))
  const published = await publish().catch((error: unknown) =>
    no(isDiskFull(error) ? 'unavailable' : 'failed', messageOf(error)),
  )
  if (published.ok) {
    await unpublishedWork.forget(folders)
    await deleteBundle(folders)
    return { published, isUnpublished: false }
  }
  if (!isSaved) await saveUnknown(folders, unpublished)
  const { refusal } = published
  // An execution that was stopped says nothing about the work.
  if (!request.mayContinue()) return { published, isUnpublished: true }
  // Only the comment about pushed commits is missing.
  if (refusal.failure === 'publish') return { published, isUnpublished: true }
  const start = { branch: unpublished.branch, base }
  const bundle = await gitSources.bundle(folders, start)
  // Work that was collected can be published, whatever the checkout is like.
  const isCheckoutAtFault = refusal.kind === 'failed' && bundle.ok && bundle.value === undefined
  const damage = isCheckoutAtFault ? await findDamage(request.session, start) : undefined
  if (damage !== undefined && request.mayContinue()) {
    await unpublishedWork.forget(folders)
    const reason = `the repository in the sandbox is damaged, so no retry can publish its work: ${damage}`
    return { published: no('gone', reason), isUnpublished: false }
  }
  const isCollected = isLeft || (bundle.ok && bundle.value !== undefined)
  if (!isCollected && FAULTY_KINDS.has(refusal.kind)) {
    await unpublishedWork.forget(folders)
    return { published, isUnpublished: false }
  }
  await sendNewBundle(bundle, request)
  return { published: { ok: false, refusal: judge(refusal, isCollected) }, isUnpublished: true }
}

/**
 * An earlier note of this work, from the end of its agent, says enough. One that cannot be read is replaced, if it can
 * be.
 */
async function saveUnknown(folders: SandboxFolders, unpublished: UnpublishedWork): Promise<void> {
  const note = await unpublishedWork.read(folders)
  if (!note.ok) await isWritten(unpublishedWork.save(folders, unpublished))
  else if (note.value === undefined) await unpublishedWork.save(folders, unpublished)
}

/** The host keeps the bundle that it has until it gets a newer one. */
async function sendNewBundle(
  bundle: Result<WorkBundle | undefined>,
  { session, addBundle, mayContinue }: PublishRequest,
): Promise<void> {
  const note = await unpublishedWork.read(session.folders)
  const known = note.ok ? note.value : undefined
  if (!bundle.ok) session.log(`its commits are not among its artifacts: ${bundle.refusal.message}`)
  if (!bundle.ok || bundle.value === undefined || !mayContinue()) return
  if (note.ok && known === undefined) return
  const { head, path } = bundle.value
  // Without the note the host gets the same bundle once more.
  if (known?.bundled !== head && (await addBundle(path)) && known !== undefined)
    await isWritten(unpublishedWork.save(session.folders, { ...known, bundled: head }))
}

const isWritten = (written: Promise<void>): Promise<boolean> =>
  written.then(
    () => true,
    () => false,
  )

function judge({ failure, ...refusal }: Refusal, isCollected: boolean): Refusal {
  if (refusal.keys !== undefined) return { ...refusal, failure: 'publish' }
  const mayPass = failure !== undefined || !LASTING_KINDS.has(refusal.kind)
  const isAgain = isCollected ? mayPass : failure !== undefined || refusal.kind === 'unavailable'
  return isAgain ? { ...refusal, failure: 'publish' } : refusal
}

// ---- the comment of a follow-up ------------------------------------------------------------------------------------

/** Code hosts accept about 65,000 characters. */
const SUMMARY_CHARS_MAX = 40_000
const FILES_NAMED_MAX = 10
const SHA_SHOWN = 12

export interface FollowUpReport {
  readonly pull: Pick<JobPull, 'baseBranch'>
  readonly start: FollowUpStart
  readonly pushResult: FollowUpPushResult
  /** The agent's last message; empty if no agent ran. */
  readonly agentSummary: string
}

/**
 * The comment without its marker: what was done, and the agent's last message if an agent ran. Also stored as the
 * run's summary.
 */
export function followUpText({ pull, start, pushResult, agentSummary }: FollowUpReport): string {
  const base = inlineCode(pull.baseBranch)
  const summary = closeCode(truncate(neutralizeMarkup(agentSummary).trim(), SUMMARY_CHARS_MAX))
  const outcome =
    start.state === 'pushed'
      ? `The branch was brought up to date with ${base}.`
      : `${describeRebase(base, start, pushResult)} ${describePush(pushResult)}`
  const notices = noticesOf({ heldBack: pushResult.heldBack, readFirst: pushResult.diff?.readFirst })
  return [...notices, outcome, ...(summary === '' ? [] : [summary])].join('\n\n')
}

/** The comment with its invisible marker, as `git/follow-up/follow-up.ts` posts it. */
export function followUpBody(text: string, id: string): string {
  return `${text}\n\n${followUpMarker(id)}`
}

function describeRebase(base: string, start: FollowUpStart, { isContained }: FollowUpPushResult): string {
  if (isContained) return `All of this branch is in ${base} already.`
  const at = `${base} (${start.base.slice(0, SHA_SHOWN)})`
  if (start.state === 'current') return `The branch holds the newest ${at} already.`
  if (start.state === 'rebased') return `The branch was rebased onto the newest ${at}, without conflicts.`
  const files = start.conflictFiles.slice(0, FILES_NAMED_MAX).map(inlineCode).join(', ')
  return `The branch was rebased onto the newest ${at}; conflicts in ${files} were resolved.`
}

function describePush({ pushed }: FollowUpPushResult): string {
  if (pushed === undefined) return 'Nothing was changed, so nothing was pushed.'
  return `Pushed as ${pushed.slice(0, SHA_SHOWN)}.`
}

/** Replaces backticks, so that a name cannot end the code span around it. */
const inlineCode = (name: string): string => `\`${toSingleLine(name).replaceAll('`', "'")}\``
