/**
 * The plan of a new run: a new sandbox, the run's branch starting at the base, and a pull request at the end.
 *
 * A run that was interrupted goes on in the sandbox and in the session of its agent, where both are still here. Where its
 * agent was done, the work is published without a session.
 */
import type { AgentExecutionRequest } from '../../../core/daemon/ports.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import type { CheckedOut } from '../../git/git-ports.ts'
import type { NumberedFolders, Sandboxes } from '../disk/sandboxes.ts'
import type { SandboxSession } from '../sandbox-session.ts'
import {
  type BegunWork,
  CLEAR_OUT_COMMAND,
  findCheckoutFault,
  isWanted,
  openBegunWork,
  rememberCheckout,
} from './begun-work.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { buildContinuationPrompt, buildPrompt } from './prompt.ts'
import { publishNewWork } from './publish-work.ts'
import { askedOf, type UnpublishedWork, unpublishedWork } from './unpublished-work.ts'
import type { AgentRequest, PublishEnd, PublishRequest, WorkDue, WorkPlan } from './work-plan.ts'

export class NewRunPlan implements WorkPlan {
  readonly #dependencies: ExecutorDependencies
  readonly #sandboxes: Sandboxes
  readonly #request: AgentExecutionRequest
  #checkedOut: CheckedOut | undefined
  /** The work of an earlier execution, in which this one goes on. */
  #begun: BegunWork | undefined
  /** Why the host's wish to go on cannot be met. */
  #whyAnew: string | undefined

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes, request: AgentExecutionRequest) {
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
    this.#request = request
  }

  async openFolders(): Promise<Result<NumberedFolders>> {
    const { job } = this.#request
    const begun = await openBegunWork(this.#dependencies, this.#sandboxes, this.#request)
    if (begun.ok) this.#begun = begun.value
    else if (begun.refusal.kind !== 'gone') return begun
    else if (job.continueSession !== undefined) this.#whyAnew = begun.refusal.message
    return yes(this.#begun?.folders ?? (await this.#sandboxes.create(job.run.id, job.sandbox?.diskQuotaGib)))
  }

  async checkOut(
    session: SandboxSession,
    signal: AbortSignal,
    onAgentKnown: (agentRequest: AgentRequest) => void,
  ): Promise<Result<void>> {
    if (this.#begun !== undefined) await this.#goOn(session, this.#begun, signal)
    if (signal.aborted) return no('conflict', 'the checkout was stopped')
    if (this.#begun !== undefined) return yes(undefined)
    if (this.#whyAnew !== undefined)
      session.log(`the agent cannot go on in its session, because ${this.#whyAnew}: the run begins anew`)
    const { gitSources } = this.#dependencies
    const { job } = this.#request
    const checked = await gitSources.checkOut(
      job,
      session.folders,
      session,
      signal,
      (line) => session.log(line),
      () => onAgentKnown({ prompt: buildPrompt(job) }),
    )
    if (!checked.ok) return checked
    this.#checkedOut = checked.value
    // Without it an interrupted run begins anew.
    await rememberCheckout(job, session.folders, checked.value).catch((error: unknown) =>
      this.#dependencies.log.warn({ err: error, runId: job.run.id }, 'a checkout could not be remembered'),
    )
    return yes(undefined)
  }

  async #goOn(session: SandboxSession, begun: BegunWork, signal: AbortSignal): Promise<void> {
    const fault = await findCheckoutFault(session, begun, signal)
    if (fault !== undefined) {
      this.#begun = undefined
      this.#whyAnew = fault
      return
    }
    this.#checkedOut = begun.from
    if (this.#left() !== undefined) {
      session.log('the agent was done in this sandbox: its work is published')
      return
    }
    session.log(`the agent goes on in its session ${begun.sessionId}, in the sandbox where it was`)
    if (begun.left === undefined) return
    // The host has the outputs, and a worker that dies from now on has an agent's work to continue.
    await session.run(CLEAR_OUT_COMMAND)
    await unpublishedWork.forget(session.folders)
  }

  /** Finished work that nobody wants changed, and that the host does not know, so it did not ask to publish it. */
  #left(): UnpublishedWork | undefined {
    const left = this.#begun?.left
    return left !== undefined && isWanted(left, this.#request.job) ? left : undefined
  }

  reachableHosts() {
    return this.#checkedOut?.reachable
  }

  agentRequest(): AgentRequest | undefined {
    const { job } = this.#request
    if (this.#begun === undefined) return { prompt: buildPrompt(job) }
    if (this.#left() !== undefined) return undefined
    const isDone = this.#begun.left !== undefined
    const prompt = buildContinuationPrompt(job, isDone)
    return { prompt, ...(this.#begun.sessionId === undefined ? {} : { resume: this.#begun.sessionId }) }
  }

  /** The home is new, and the checkout is not: the agent repairs what the setup stumbles over. */
  setupRule(): 'required' | 'optional' {
    return this.#begun === undefined ? 'required' : 'optional'
  }

  hasRetainedSandbox(): boolean {
    return this.#begun !== undefined
  }

  hasUnpublishedWork(): boolean {
    return false
  }

  async remember({ folders }: SandboxSession, summary: string, due: WorkDue): Promise<void> {
    const { repo, branch, run } = this.#request.job
    const from = this.#checkedOut
    if (from === undefined || this.#left() !== undefined) return
    await unpublishedWork.save(folders, {
      remote: repo.remote,
      branch,
      from,
      asked: askedOf(run),
      summary,
      isHookDue: true,
      ...due,
    })
  }

  isHookDue(): boolean {
    return this.#left()?.isHookDue === true
  }

  async publish(request: PublishRequest): Promise<PublishEnd> {
    const { job, leaseId } = this.#request
    const from = this.#checkedOut
    if (from === undefined) return { published: yes(undefined), isUnpublished: false }
    const left = this.#left()
    if (left === undefined) return publishNewWork(this.#dependencies, { job, leaseId, from }, request)
    const { summary } = left
    const asBefore = { ...request, agentSummary: summary }
    const end = await publishNewWork(this.#dependencies, { job, leaseId, from, left }, asBefore)
    const { published } = end
    return published.ok && published.value !== undefined
      ? { ...end, published: yes({ ...published.value, summary }) }
      : end
  }
}
