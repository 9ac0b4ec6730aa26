/** A run's own course: a new sandbox, the run's branch from its base on, and a pull request at the end. */
import type { ExecutionRequest } from '../../core/daemon/ports.ts'
import { type Result, yes } from '../../core/result.ts'
import type { CheckedOut } from '../git/git-ports.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { buildPrompt } from './prompt.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { AgentRequest, PublishedWork, PublishRequest, WorkPlan } from './work-plan.ts'

export class NewRunPlan implements WorkPlan {
  readonly #dependencies: ExecutorDependencies
  readonly #sandboxes: Sandboxes
  readonly #order: ExecutionRequest
  #checkedOut: CheckedOut | undefined

  constructor(dependencies: ExecutorDependencies, sandboxes: Sandboxes, order: ExecutionRequest) {
    this.#dependencies = dependencies
    this.#sandboxes = sandboxes
    this.#order = order
  }

  openFolders() {
    const { run, sandbox } = this.#order.job
    return this.#sandboxes.create(run.id, sandbox?.diskQuotaGib)
  }

  async checkOut(session: SandboxSession, signal: AbortSignal): Promise<Result<void>> {
    const logToRun = (line: string) => session.log(line)
    const { gitSources } = this.#dependencies
    const checked = await gitSources.checkOut(this.#order.job, session.folders, session, signal, logToRun)
    if (!checked.ok) return checked
    this.#checkedOut = checked.value
    return yes(undefined)
  }

  agentRequest(): AgentRequest {
    return { prompt: buildPrompt(this.#order.job) }
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
    mayContinue,
    signal,
  }: PublishRequest): Promise<Result<PublishedWork | undefined>> {
    const { job, leaseId } = this.#order
    const from = this.#checkedOut
    if (from === undefined) return yes(undefined)
    const { gitSources, codehostFor } = this.#dependencies
    const collected = await gitSources.collect(job, session.folders, session, from)
    if (!collected.ok) return collected
    if (collected.value.diff.text !== '') session.log(collected.value.diff.text)
    if (collected.value.head === undefined) return yes(undefined)
    const codehost = codehostFor(job)
    if (!codehost.ok) return codehost
    const { folders } = session
    const logToRun = (line: string) => session.log(line)
    const order = { job, leaseId, folders, from, collected: collected.value, summary: agentSummary, logToRun }
    const published = await gitSources.publish(order, codehost.value, mayContinue, signal)
    if (!published.ok) return published
    const { prUrl, prState, pushed } = published.value
    return yes({ prUrl, prState, pushed, branch: job.branch })
  }
}
