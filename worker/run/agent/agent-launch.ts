/**
 * `AgentLaunch` starts the sandbox of a run's agent, with its access to the model and with the agent's command on
 * hold.
 *
 * The sandbox is started beside the checkout if it needs nothing of it, otherwise after it. It may hold the credential
 * of the agent, so no script of the repository runs beside it.
 */
import { type Result, yes } from '../../../core/result.ts'
import type { AgentJob } from '../../../protocol/frames.ts'
import { createModelMeter } from '../../model-api/create-model-meter.ts'
import type { ModelMeter } from '../../model-api/meter.ts'
import type { SandboxProcess } from '../../sandbox/driver.ts'
import type { ExecutorDependencies } from '../execution/executor-dependencies.ts'
import type { AgentRequest } from '../execution/work-plan.ts'
import type { SandboxCommand, SandboxSession } from '../sandbox-session.ts'
import { type AgentAccess, openAgentAccess, pricesOf, vendorRules } from './agent-access.ts'
import { type PreparedAgent, prepareAgent } from './agent-start.ts'

export interface AgentLaunchOptions {
  readonly dependencies: ExecutorDependencies
  readonly job: AgentJob
  /** Receives the cost so far of what passed to the model. */
  readonly onSpent: (costUsd: number) => void
  /** Receives the sentence that says why nothing more passes. */
  readonly onExhausted: (reason: string) => void
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
  #launched: Promise<Result<LaunchedAgent>> | undefined

  constructor(options: AgentLaunchOptions) {
    this.#options = options
  }

  /** Starts the sandbox before it is needed. */
  startEarly(session: SandboxSession, agentRequest: AgentRequest): void {
    this.#launched = this.#launch(session, agentRequest)
    // `take` starts it again.
    this.#launched.catch(() => {})
  }

  /** Returns what `startEarly` has started. If there is nothing, or it could not be prepared, the sandbox is started now. */
  async take(session: SandboxSession, agentRequest: AgentRequest): Promise<Result<LaunchedAgent>> {
    const early = await this.#launched?.catch(() => undefined)
    if (early?.ok === true) return early
    this.#launched = this.#launch(session, agentRequest)
    return this.#launched
  }

  /** Ends a sandbox whose agent has not begun. */
  async discard(): Promise<void> {
    const launched = await this.#launched?.catch(() => undefined)
    if (launched?.ok === true) launched.value.held?.discard()
  }

  /** The session closes the access at the latest, whatever fails before. */
  async #launch(session: SandboxSession, agentRequest: AgentRequest): Promise<Result<LaunchedAgent>> {
    const { dependencies, job, onSpent, onExhausted } = this.#options
    const { agent, credentials, limits } = job
    const { provider } = agent
    const meter = createModelMeter({ provider, prices: pricesOf(credentials), limits, onSpent, onExhausted })
    const access = await openAgentAccess({
      dependencies,
      provider,
      credentials,
      folders: session.folders,
      meter,
      rules: {
        ...vendorRules(credentials, job.sandbox?.network),
        ...(agent.model === undefined ? {} : { model: agent.model }),
      },
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

// ---- a command on hold ---------------------------------------------------------------------------------------------

export interface HeldProcess {
  readonly process: SandboxProcess
  /** Lets the command begin and gives it its input. */
  begin(): void
  /** Ends the process if its command has not begun. */
  discard(): void
}

const BEGIN_WORD = 'begin\n'
/** The shell reads one line and leaves the rest of the input to the command. */
const HOLD_SCRIPT = '{ read -r word && [ "$word" = begin ]; } || exit 125; exec "$@"'

/**
 * Starts a sandbox and its network at once; the command in it begins only with `begin`.
 *
 * A sandbox takes tens of milliseconds to start, and these can pass while other work for the same run is done.
 *
 * Returns undefined once the session was stopped.
 */
export function startHeld(
  session: Pick<SandboxSession, 'start'>,
  { command, stdin = '', ...rest }: SandboxCommand,
): HeldProcess | undefined {
  const heldCommand = ['/bin/sh', '-c', HOLD_SCRIPT, 'held', ...command]
  const process = session.start({ ...rest, command: heldCommand, openInput: true })
  if (process === undefined) return undefined
  let hasBegun = false
  return {
    process,
    begin: () => {
      hasBegun = true
      process.input?.end(`${BEGIN_WORD}${stdin}`)
    },
    discard: () => {
      if (hasBegun) return
      process.kill()
      // A sandbox counts as ended when its output was read, and nobody reads this one's.
      for (const stream of [process.stdout, process.stderr]) stream.resume()
    },
  }
}
