/**
 * The plan of a follow-up: the run's retained sandbox or a new one, the pull request's branch rebased onto the newest
 * base, an agent only if there is a conflict, a remark or an operator's instruction, one push, one comment. Without any
 * work there is neither.
 *
 * A follow-up may be repeated from its beginning, on this or another worker, wherever it was interrupted: each step
 * first asks the code host what is already there. The comment comes last, so a follow-up with a comment is complete.
 */
import type { AgentExecutionRequest } from '../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../core/result.ts'
import { followUpMarker } from '../../core/run/follow-up.ts'
import { hasInstructions } from '../../core/run/run-options.ts'
import type { AgentJob, JobFollowUp, JobPull } from '../../protocol/frames.ts'
import type { FollowUpStart } from '../git/git-ports.ts'
import { CLEAR_OUT_COMMAND } from './begun-work.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { buildFollowUpPrompt, describeUnheard, openRemarks } from './follow-up-prompt.ts'
import { describeFollowUp, publishFollowUp } from './publish-work.ts'
import { findResumableSession } from './resumable-session.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { NumberedFolders, Sandboxes } from './sandboxes.ts'
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
