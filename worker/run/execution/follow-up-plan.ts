/**
 * The plan of a follow-up: the run's retained sandbox or a new one, the pull request's branch rebased onto the newest
 * base, an agent only if there is a conflict, a remark or an operator's instruction, one push, one comment. Without any
 * work there is neither.
 *
 * A follow-up may be repeated from its beginning, on this or another worker, wherever it was interrupted: each step
 * first asks the code host what is already there. The comment comes last, so a follow-up with a comment is complete.
 */
import type { AgentExecutionRequest } from '../../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { followUpMarker } from '../../../core/run/follow-up.ts'
import { hasInstructions } from '../../../core/run/run-options.ts'
import { toSingleLine } from '../../../core/safe-text.ts'
import type { AgentJob, Job, JobFollowUp, JobPull } from '../../../protocol/frames.ts'
import type { PullComment, PullReview, PullThread } from '../../../protocol/pulls.ts'
import type { FollowUpStart } from '../../git/git-ports.ts'
import type { NumberedFolders, Sandboxes } from '../disk/sandboxes.ts'
import type { SandboxSession } from '../sandbox-session.ts'
import { CLEAR_OUT_COMMAND, findResumableSession } from './begun-work.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import {
  describeMemories,
  describeTicket,
  operatorInstructions,
  outputInstructions,
  quoteOthers,
  quoteRule,
} from './prompt.ts'
import { describeFollowUp, publishFollowUp } from './publish-work.ts'
import { tryAgain, type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'
import type { AgentRequest, PublishEnd, PublishRequest, WorkDue, WorkPlan } from './work-plan.ts'

/** `commented`: an earlier attempt already posted the comment, so nothing is left to do. */
type Stage = { readonly is: 'commented' } | StartedStage

interface StartedStage {
  readonly is: 'started'
  readonly start: FollowUpStart
  /** Set when an earlier attempt on this worker reached its push. */
  readonly saved: UnpublishedWork | undefined
}

const COMMENTED_BEFORE = 'An earlier attempt of this follow-up was interrupted at its very end.'
/** No person can use an editor in the sandbox, so git must not wait for one. */
const NO_EDITOR = { GIT_EDITOR: 'true', GIT_SEQUENCE_EDITOR: 'true' }

export class FollowUpPlan implements WorkPlan {
  readonly #dependencies: ExecutorDependencies
  readonly #sandboxes: Sandboxes
  readonly #job: AgentJob
  readonly #pull: JobPull
  readonly #followUp: JobFollowUp
  #hasRetainedSandbox = false
  #resumedSessionId: string | undefined
  #stage: Stage | undefined

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes, { job }: AgentExecutionRequest) {
    const { pull, followUp } = job
    if (pull === undefined || followUp === undefined) throw new Error('a follow-up of no pull request')
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
    this.#job = job
    this.#pull = pull
    this.#followUp = followUp
  }

  async openFolders(): Promise<Result<NumberedFolders>> {
    const { run, sandbox, agent } = this.#job
    const { transcripts } = this.#dependencies.drivers[agent.provider]
    const retained = await this.#sandboxes.openRetained(run.id, transcripts)
    this.#hasRetainedSandbox = retained !== undefined
    return yes(retained ?? (await this.#sandboxes.create(run.id, sandbox?.diskQuotaGib)))
  }

  async checkOut(session: SandboxSession, signal: AbortSignal): Promise<Result<void>> {
    const { followUps } = this.#dependencies.gitSources
    const logToRun = (line: string) => session.log(line)
    const hasComment = await followUps.hasComment(
      this.#job,
      followUpMarker(this.#followUp.id),
      signal,
      logToRun,
    )
    if (!hasComment.ok) return hasComment
    if (hasComment.value) {
      this.#stage = { is: 'commented' }
      return yes(undefined)
    }
    // The outputs and the checkout stay as they are until somebody can read what was done.
    const note = await unpublishedWork.read(session.folders)
    if (!note.ok) return tryAgain(note.refusal)
    const known = note.value
    if (this.#hasRetainedSandbox) await session.run(CLEAR_OUT_COMMAND)
    const start = await followUps.begin(
      {
        job: this.#job,
        folders: session.folders,
        sandbox: session,
        isRetained: this.#hasRetainedSandbox,
        logToRun,
      },
      signal,
    )
    if (!start.ok) return start
    const saved = known?.followUp?.id === this.#followUp.id ? known : undefined
    // The work of another execution is on a branch inside now.
    if (saved === undefined) await unpublishedWork.forget(session.folders)
    this.#stage = { is: 'started', start: start.value, saved }
    this.#resumedSessionId = this.#hasRetainedSandbox
      ? await findResumableSession(this.#dependencies, this.#sandboxes, this.#job)
      : undefined
    this.#logStart(session, start.value)
    return yes(undefined)
  }

  reachableHosts() {
    return this.#stage?.is === 'started' ? this.#stage.start.reachable : undefined
  }

  agentRequest(): AgentRequest | undefined {
    if (this.#stage?.is !== 'started') return undefined
    const { start } = this.#stage
    const remarks = openRemarks(this.#pull)
    const isUnfinished = start.state === 'conflict' || start.merges !== undefined
    const isAsked = remarks.length > 0 || hasInstructions(this.#job.run)
    const isNeeded = isUnfinished || (start.state !== 'pushed' && isAsked)
    if (!isNeeded) return undefined
    const isResumed = this.#resumedSessionId !== undefined
    return {
      prompt: buildFollowUpPrompt({ job: this.#job, pull: this.#pull, start, remarks, isResumed }),
      environment: NO_EDITOR,
      ...(this.#resumedSessionId === undefined ? {} : { resume: this.#resumedSessionId }),
    }
  }

  /** The home is always new. Where there is a conflict or an agent's work, the setup may fail; the agent repairs that. */
  setupRule(): 'required' | 'optional' | 'skip' {
    const start = this.#stage?.is === 'started' ? this.#stage.start : undefined
    if (start === undefined) return 'skip'
    return start.isNewCheckout && start.state !== 'conflict' ? 'required' : 'optional'
  }

  hasRetainedSandbox(): boolean {
    return this.#hasRetainedSandbox
  }

  hasUnpublishedWork(): boolean {
    return this.#stage?.is === 'started' && this.#stage.start.preserved.length > 0
  }

  async remember({ folders }: SandboxSession, summary: string, due: WorkDue): Promise<void> {
    if (this.#stage?.is !== 'started') return
    const { start } = this.#stage
    const { repo, branch } = this.#job
    const followUp = { id: this.#followUp.id, start, isAsked: this.agentRequest() !== undefined }
    const work = { remote: repo.remote, branch, followUp, summary }
    await unpublishedWork.save(folders, { ...work, isHookDue: true, ...due })
  }

  isHookDue(): boolean {
    return false
  }

  async publish(request: PublishRequest): Promise<PublishEnd> {
    const stage = this.#stage
    const work = { job: this.#job, pull: this.#pull, followUp: this.#followUp }
    if (stage === undefined)
      return { published: no('failed', 'the follow-up was not begun'), isUnpublished: false }
    if (stage.is === 'commented') {
      const published = yes(describeFollowUp(work, COMMENTED_BEFORE))
      return { published, isUnpublished: false }
    }
    const { start, saved } = stage
    const isAsked = this.agentRequest() !== undefined
    const agentSummary = start.state === 'pushed' ? (saved?.summary ?? '') : request.agentSummary
    return publishFollowUp(
      this.#dependencies,
      { ...work, start, isAsked, hadSummary: saved !== undefined && saved.areOutputsDue !== true },
      { ...request, agentSummary },
    )
  }

  // ---- steps -----------------------------------------------------------------------------------------------------

  #logStart(session: SandboxSession, { state, base, conflictFiles, preserved }: FollowUpStart): void {
    const { headBranch, baseBranch } = this.#pull
    const onto = `${headBranch} onto ${baseBranch} at ${base.slice(0, 12)}`
    const lines = {
      pushed: `an earlier attempt of this follow-up has pushed ${headBranch}; only its comment is missing`,
      current: `${headBranch} holds the newest ${baseBranch} already`,
      rebased: `rebased ${onto}, without conflicts`,
      conflict: `rebasing ${onto} stopped at conflicts in ${conflictFiles.join(', ')}`,
    } as const
    session.log(lines[state])
    if (preserved.length > 0)
      session.log(`work that existed only in this sandbox is preserved inside: ${preserved.join(', ')}`)
    for (const line of describeUnheard(this.#job, this.#pull)) session.log(line)
    if (this.agentRequest() === undefined) session.log('there is nothing for an agent to do')
  }
}

/** The line of the run's log about remarks that its job does not hold. */
function describeUnheard({ repo }: Job, { unheard = [] }: JobPull): string[] {
  if (unheard.length === 0) return []
  return [
    `left out what ${unheard.join(', ')} said: they may not write to ${repo.remote}; name them in repos.${repo.key}.orders to have it obeyed`,
  ]
}

// ---- remarks -------------------------------------------------------------------------------------------------------

/** A remark on a pull request that awaits an answer. */
interface PullRemark {
  readonly at: string
  readonly text: string
}

/** States of reviews that were never submitted, or were dismissed. */
const VOID_REVIEWS: readonly string[] = ['PENDING', 'DISMISSED']
/** Matches at the start of a line only, because a quotation puts `>` in front. */
const OWN_MARKER = /^<!-- switchyard:/m

/** Oldest first. A review without a text is left out: its remarks are in its threads. */
export function openRemarks({ threads, reviews, comments }: JobPull): readonly PullRemark[] {
  const all = [
    ...threads.filter(isUnresolved).map(threadRemark),
    ...reviews
      .filter(({ state, body }) => isRemarkText(body) && !VOID_REVIEWS.includes(state))
      .map(reviewRemark),
    ...comments.filter(({ body }) => isRemarkText(body)).map(commentRemark),
  ]
  return all.sort((a, b) => (a.at === b.at ? 0 : a.at < b.at ? -1 : 1))
}

const isRemarkText = (body: string): boolean => body.trim() !== '' && !OWN_MARKER.test(body)

const isUnresolved = ({ resolved, comments }: PullThread): boolean =>
  !resolved && comments.some(({ body }) => isRemarkText(body))

const reviewRemark = ({ author, state, body, submittedAt }: PullReview): PullRemark => ({
  at: submittedAt,
  text: `## Review by ${toSingleLine(author)} (${toSingleLine(state)})\n${quoteOthers(body)}`,
})

const commentRemark = (comment: PullComment): PullRemark => ({
  at: comment.createdAt,
  text: `## ${quoteComment(comment)}`,
})

function threadRemark({ path, line, diffHunk, comments }: PullThread): PullRemark {
  const where = `${toSingleLine(path)}${line === undefined ? '' : `, line ${line}`}`
  const visibleComments = comments.filter(({ body }) => isRemarkText(body))
  const hunk = diffHunk.trim() === '' ? [] : [quoteOthers(diffHunk)]
  const quotes = visibleComments.map((comment) => `### ${quoteComment(comment)}`)
  return {
    at: visibleComments.at(-1)?.createdAt ?? '',
    text: [`## Unresolved review thread in ${where}`, ...hunk, ...quotes].join('\n'),
  }
}

function quoteComment({ author, createdAt, body }: PullComment): string {
  return `Comment by ${toSingleLine(author)}, ${createdAt}\n${quoteOthers(body)}`
}

// ---- the prompt ------------------------------------------------------------------------------------------------------

interface FollowUpPromptInput {
  readonly job: AgentJob
  readonly pull: JobPull
  readonly start: FollowUpStart
  readonly remarks: readonly PullRemark[]
  /** The agent resumes the session in which it did the work, so the prompt leaves out the ticket. */
  readonly isResumed: boolean
}

/**
 * Builds the prompt of a follow-up: the state of the branch, the remaining work, and the remarks of people that nobody
 * has answered yet, with the reports of failed checks among them.
 *
 * Remarks come last and oldest first, each quoted, below a heading that says where they come from. Comments that
 * switchyard wrote never count, because otherwise each follow-up would cause the next one. The host has already
 * removed answered remarks and limited their number.
 */
export function buildFollowUpPrompt(facts: FollowUpPromptInput): string {
  const { job, isResumed } = facts
  const parts = [
    job.agent.instructions,
    outputInstructions,
    ...operatorInstructions(job.run),
    quoteRule,
    describeBranch(facts),
    ...(isResumed ? [] : [describeTicket(job.run.ticket, ITS_TICKET)]),
    ...describeMemories(job.agent.memories),
    ...quoteRemarks(facts),
  ]
  return parts
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .join('\n\n')
}

function describeBranch({ pull, start, remarks }: FollowUpPromptInput): string {
  const { number, url } = pull
  return [
    `# Pull request ${number}: ${toSingleLine(url)}`,
    STATE_SENTENCES[start.state](branchFacts(pull, start)),
    ...mergesNote(start),
    ...(start.preserved.length === 0 ? [] : [keptNote(start.preserved)]),
    ...(remarks.length === 0
      ? []
      : ['Then address what people and checks said below: change what they ask for, or say why not.']),
    'Let your last message say briefly, point by point, what became of each.',
  ].join('\n')
}

const FILES_NAMED_MAX = 20

interface BranchFacts {
  readonly base: string
  readonly files: string
}

const branchFacts = ({ baseBranch }: JobPull, { conflictFiles }: FollowUpStart): BranchFacts => ({
  base: baseBranch,
  files: conflictFiles.slice(0, FILES_NAMED_MAX).map(toSingleLine).join(', '),
})

const STATE_SENTENCES: Readonly<Record<FollowUpStart['state'], (facts: BranchFacts) => string>> = {
  conflict: ({ base, files }) =>
    `Its branch is being rebased onto the newest ${base}, and the rebase has stopped at a conflict (git status shows it). In conflict: ${files}. First finish the rebase: resolve each conflict so that the intention of both sides is kept, git add the files, and go on with \`GIT_EDITOR=true git rebase --continue\` until it is through. Do not abort or skip it, and leave no conflict markers behind: otherwise nothing is pushed.`,
  rebased: ({ base }) => `Its branch has just been rebased onto the newest ${base}, without a conflict.`,
  current: ({ base }) => `Its branch holds the newest ${base} already.`,
  pushed: () => 'Its branch has been pushed already.',
}

function mergesNote({ head, merges = [] }: FollowUpStart): string[] {
  if (merges.length === 0) return []
  return [
    `The branch held merges (${merges.join(', ')}). A rebase leaves them out, and with them what was changed in them by hand: once it is through, compare with ${head}, where the branch stood before, and take along what is missing.`,
  ]
}

function keptNote(kept: readonly string[]): string {
  return `What this checkout held before and was never pushed is kept in ${kept.map(toSingleLine).join(', ')}; use of it what serves.`
}

const ITS_TICKET = 'It is what the pull request is for, and was worked on before.'

function quoteRemarks({ remarks }: FollowUpPromptInput): string[] {
  if (remarks.length === 0) return []
  const heading =
    '# What people and checks said on the pull request\nWritten by others: it says what they would like to see changed, or what failed.'
  return [heading, ...remarks.map(({ text }) => text)]
}
