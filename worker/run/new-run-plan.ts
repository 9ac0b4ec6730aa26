/** The plan of a new run: a new sandbox, the run's branch starting at the base, and a pull request at the end. */
import type { AgentExecutionRequest } from '../../core/daemon/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { CheckedOut } from '../git/git-ports.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { buildPrompt } from './prompt.ts'
import { reportHeldBack } from './report-held-back.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { AgentRequest, PublishedWork, PublishRequest, WorkPlan } from './work-plan.ts'

export class NewRunPlan implements WorkPlan {
  readonly #dependencies: ExecutorDependencies
  readonly #sandboxes: Sandboxes
  readonly #request: AgentExecutionRequest
  #checkedOut: CheckedOut | undefined

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes, request: AgentExecutionRequest) {
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
    this.#request = request
  }

  openFolders() {
    const { run, sandbox } = this.#request.job
    return this.#sandboxes.create(run.id, sandbox?.diskQuotaGib)
  }

  async checkOut(
    session: SandboxSession,
    signal: AbortSignal,
    onAgentKnown: (agentRequest: AgentRequest) => void,
  ): Promise<Result<void>> {
    const { gitSources } = this.#dependencies
    const checked = await gitSources.checkOut(
      this.#request.job,
      session.folders,
      session,
      signal,
      (line) => session.log(line),
      () => onAgentKnown(this.agentRequest()),
    )
    if (!checked.ok) return checked
    this.#checkedOut = checked.value
    return yes(undefined)
  }

  reachableHosts() {
    return this.#checkedOut?.reachable
  }

  agentRequest(): AgentRequest {
    return { prompt: buildPrompt(this.#request.job) }
  }

  setupRule(): 'required' {
    return 'required'
  }

  hasRetainedSandbox(): boolean {
    return false
  }

  hasUnpublishedWork(): boolean {
    return false
  }

  async publish({
    session,
    agentSummary,
    addArtifact,
    mayContinue,
    signal,
  }: PublishRequest): Promise<Result<PublishedWork | undefined>> {
    const { job, leaseId } = this.#request
    const checkedOut = this.#checkedOut
    if (checkedOut === undefined) return yes(undefined)
    const { gitSources, codehostFor } = this.#dependencies
    const collected = await gitSources.collect(job, session.folders, session, checkedOut)
    if (!collected.ok) return collected
    if (collected.value.diff.text !== '') session.log(collected.value.diff.text)
    const { heldBack } = collected.value
    if (heldBack !== undefined) reportHeldBack(heldBack, { session, addArtifact })
    if (collected.value.head === undefined) return yes(undefined)
    const codehost = codehostFor(job)
    if (!codehost.ok) return codehost
    const { folders } = session
    const logToRun = (line: string) => session.log(line)
    const request = {
      job,
      leaseId,
      folders,
      from: checkedOut,
      collected: collected.value,
      summary: agentSummary,
      logToRun,
    }
    const published = await gitSources.publish(request, codehost.value, mayContinue, signal)
    if (!published.ok) return published
    const { prUrl, prState, pushed } = published.value
    return yes({ prUrl, prState, pushed, branch: job.branch })
  }
}
