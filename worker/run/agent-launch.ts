/**
 * `AgentLaunch` starts the sandbox of a run's agent: with its access to the model, and with the agent's command on hold.
 *
 * The sandbox is started beside the checkout when it does not depend on it; `take` starts it otherwise. Nothing of the
 * repository runs beside a sandbox on hold, which holds the agent's credential.
 */
import type { Result } from '../../core/result.ts'
import { yes } from '../../core/result.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { Job } from '../../protocol/frames.ts'
import { createModelMeter } from '../model-api/create-model-meter.ts'
import type { ModelMeter } from '../model-api/meter.ts'
import { type AgentAccess, openAgentAccess } from './agent-access.ts'
import { type PreparedAgent, prepareAgent } from './agent-start.ts'
import type { ExecutorDependencies } from './executor-dependencies.ts'
import { type HeldProcess, startHeld } from './held-process.ts'
import type { SandboxSession } from './sandbox-session.ts'
import type { AgentRequest } from './work-plan.ts'

export interface AgentLaunchOptions {
  readonly dependencies: ExecutorDependencies
  readonly job: Job
  /** Receives the cost so far of what passed to the model. */
  readonly onSpent: (costUsd: number) => void
}

export interface LaunchedAgent {
  readonly prepared: PreparedAgent
  readonly access: AgentAccess
  /** Counts what the agent spends as it passes. */
  readonly meter: ModelMeter | undefined
  /** Absent: the session was stopped. */
  readonly held: HeldProcess | undefined
}

export class AgentLaunch {
  readonly #options: AgentLaunchOptions
  /** Present until it is taken. */
  #early: Promise<Result<LaunchedAgent>> | undefined

  constructor(options: AgentLaunchOptions) {
    this.#options = options
  }

  begin(session: SandboxSession, agentRequest: AgentRequest): void {
    this.#early = this.#launch(session, agentRequest)
    // `take` reports the error.
    this.#early.catch(() => {})
  }

  /** Returns what `begin` has started, or starts it now. */
  take(session: SandboxSession, agentRequest: AgentRequest): Promise<Result<LaunchedAgent>> {
    const early = this.#early
    this.#early = undefined
    return early ?? this.#launch(session, agentRequest)
  }

  /** Ends what was begun and is not going to be taken. */
  async discard(): Promise<void> {
    const launched = await this.#early?.catch(() => undefined)
    this.#early = undefined
    if (launched?.ok === true) launched.value.held?.discard()
  }

  /** The session closes the access at the latest, whatever fails before. */
  async #launch(session: SandboxSession, agentRequest: AgentRequest): Promise<Result<LaunchedAgent>> {
    const { dependencies, job, onSpent } = this.#options
    const { agent, credentials, limits } = job
    const { provider } = agent
    const meter = createModelMeter({ provider, prices: PRICES, limits, onSpent })
    const access = await openAgentAccess({
      dependencies,
      provider,
      credentials,
      folders: session.folders,
      meter,
      log: (line) => session.log(line),
    })
    if (!access.ok) return access
    session.closeWith(access.value)
    const prepared = await prepareAgent(dependencies, job, agentRequest, access.value)
    if (!prepared.ok) return prepared
    const held = startHeld(session, { ...prepared.value.command, withEgress: true })
    return yes({ prepared: prepared.value, access: access.value, meter, held })
  }
}
