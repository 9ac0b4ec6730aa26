/** The plan of a new run: a new sandbox, the run's branch starting at the base, and a pull request at the end. */
import type { AgentExecutionRequest } from '../../core/daemon/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { CheckedOut } from '../git/git-ports.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { buildPrompt } from './prompt.ts'
import { publishNewWork } from './publish-work.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { AgentRequest, PublishEnd, PublishRequest, WorkPlan } from './work-plan.ts'

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

  async publish(request: PublishRequest): Promise<PublishEnd> {
    const { job, leaseId } = this.#request
    const from = this.#checkedOut
    return from === undefined
      ? { published: yes(undefined), isUnpublished: false }
      : publishNewWork(this.#dependencies, { job, leaseId, from }, request)
  }
}
