/** `ExecutionState` is what the phases of one execution know about it together, and the steps that several of them take. */
import type {
  AgentExecutionRequest,
  ExecutionReporter,
  Progress,
  StopRequest,
} from '../../../core/daemon/ports.ts'
import { no, type Refused, type Result } from '../../../core/result.ts'
import { TEXT_CHARS_MAX } from '../../../protocol/limits.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import type { RunPhase } from '../../../protocol/run.ts'
import { truncateToChars } from '../../../protocol/text-budget.ts'
import type { AgentExitReport } from '../../agents/agent.ts'
import type { ModelMeter } from '../../model-api/meter.ts'
import { createRunSecretSearch } from '../../secrets/run-secrets.ts'
import type { SecretSearch } from '../../secrets/secret-search.ts'
import type { PreparedAgent } from '../agent/agent-start.ts'
import type { Sandboxes } from '../disk/sandboxes.ts'
import { describeScriptFailure, type SandboxSession } from '../sandbox-session.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { FollowUpPlan } from './follow-up-plan.ts'
import { NewRunPlan } from './new-run-plan.ts'
import { PhaseReporter } from './publish-outcome.ts'
import { FinalizingTime, type WorkDue, type WorkPlan } from './work-plan.ts'

export interface RunExecutionOptions {
  readonly dependencies: ExecutorDependencies
  readonly sandboxes: Sandboxes
  readonly request: AgentExecutionRequest
  readonly reporter: ExecutionReporter
  readonly onProgress: (progress: Progress) => void
  /** Called when every process of the execution has ended and only its disk is left. */
  readonly onGone: () => void
}

export class ExecutionState {
  readonly options: RunExecutionOptions
  readonly reporter: PhaseReporter
  readonly plan: WorkPlan
  readonly abort = new AbortController()
  /** Aborted when not even a step that follows a push (such as the comment) may be completed. */
  readonly finalAbort = new AbortController()
  stopRequest: StopRequest | undefined
  session: SandboxSession | undefined
  meter: ModelMeter | undefined
  isCheckedOut = false
  preparedAgent: PreparedAgent | undefined
  /** The instant at which the agent resumed an existing session; usage before it belongs to earlier executions. */
  resumedSince: string | undefined
  exitReport: AgentExitReport | undefined
  sessionId: string | undefined
  readonly search: SecretSearch
  readonly time: FinalizingTime
  isRetained = false
  isWorkRemembered = false
  /** The sandbox of an earlier execution may hold finished work whose note cannot be read, so it stays as it is. */
  isSandboxUntouched = false
  agentArtifacts: readonly string[] = []
  readonly ownArtifacts: string[] = []

  constructor(options: RunExecutionOptions) {
    this.reporter = new PhaseReporter(options.reporter)
    this.options = { ...options, reporter: this.reporter }
    const { dependencies, sandboxes, request } = options
    this.plan =
      request.job.kind === 'follow-up'
        ? new FollowUpPlan(dependencies, sandboxes, request)
        : new NewRunPlan(dependencies, sandboxes, request)
    this.time = new FinalizingTime(dependencies.clock, dependencies.finalizingMs)
    this.search = createRunSecretSearch(request.job, dependencies.ownSecrets)
  }

  async runScript(
    session: SandboxSession,
    phase: RunPhase,
    name: string,
    text = '',
    signal?: AbortSignal,
  ): Promise<Result<never> | undefined> {
    if (isBlank(text)) return undefined
    const before = this.reporter.phase
    this.reporter.phase = phase
    const end = await session.runScript(text, signal)
    this.reporter.phase = before
    if (end.code === 0) return undefined
    return this.stopRequest === undefined
      ? no('failed', describeScriptFailure(name, end, this.options.request.job.sandbox?.network))
      : this.stoppedResult()
  }

  /** The agent's last message, unless it holds a secret. */
  agentSummary(): string {
    const summary = this.exitReport?.summary ?? ''
    return this.search.findIn(summary) === undefined ? summary : ''
  }

  async rememberWork(session: SandboxSession, due: WorkDue): Promise<void> {
    const remembered = this.plan.remember(session, this.agentSummary(), due).then(() => true)
    this.isWorkRemembered = await this.orFallback(remembered, () => false)
  }

  /** Isolates the steps at the end of a run: a full disk in one step must not lose the results of the others. */
  orFallback<T>(step: Promise<T>, failed: (reason: string) => T): Promise<T> {
    return step.catch((error: unknown) => {
      const { dependencies, request } = this.options
      dependencies.log.error({ err: error, runId: request.job.run.id }, 'a step of a run failed unexpectedly')
      return failed(truncateToChars(messageOf(error), TEXT_CHARS_MAX))
    })
  }

  sandboxReference() {
    const { dependencies, request } = this.options
    const { workerId, job } = request
    return { provider: dependencies.sandboxProvider, id: job.run.id, workerId }
  }

  isKilled(): boolean {
    return this.stopRequest?.how === 'kill'
  }

  stoppedResult(): Refused {
    return no('conflict', this.stopRequest?.reason ?? 'stopped')
  }

  instant(): string {
    return new Date(this.options.dependencies.clock.now()).toISOString()
  }
}

export const isBlank = (text = ''): boolean => text.trim() === ''
