/**
 * Applies what a person says when a run, a retry or a follow-up is queued: instructions for the agent, and the agent,
 * model or effort in place of the configured ones.
 *
 * What the person does not say stays as it is in the run's record, so a retry keeps the words of the run.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'
import type { RepoMapping, ServiceConfig } from '../../protocol/config.ts'
import { RUN_INSTRUCTIONS_BYTES_MAX } from '../../protocol/limits.ts'
import type { Run, RunAgentChoice, RunOptions } from '../../protocol/run.ts'
import { no, type Result, yes } from '../result.ts'

/** The schema counts characters, and the limit is in bytes. */
export function checkRunOptions({ instructions = '' }: RunOptions): Result<void> {
  if (Buffer.byteLength(instructions) <= RUN_INSTRUCTIONS_BYTES_MAX) return yes(undefined)
  return no('invalid', `/instructions: must have at most ${RUN_INSTRUCTIONS_BYTES_MAX} bytes in UTF-8`)
}

export const hasInstructions = ({ instructions = '' }: Pick<Run, 'instructions'>): boolean =>
  instructions.trim() !== ''

/** Empty instructions remove those of the run. */
export function applyRunOptions(run: Run, options: RunOptions): Run {
  const { instructions: words, agent: choice, ...rest } = run
  const wanted = { instructions: options.instructions ?? words ?? '' }
  const agent = chooseAgent(choice, options)
  return {
    ...rest,
    ...(hasInstructions(wanted) ? wanted : {}),
    ...(agent === undefined ? {} : { agent }),
  }
}

/** The model of another provider is dropped. */
function chooseAgent(
  before: RunAgentChoice = {},
  { provider, model, effort }: RunOptions,
): RunAgentChoice | undefined {
  const { model: _, ...withoutModel } = before
  const agent: RunAgentChoice = {
    ...(provider === undefined || provider === before.provider ? before : withoutModel),
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
    ...(effort === undefined ? {} : { effort }),
  }
  return Object.keys(agent).length === 0 ? undefined : agent
}

/** The run's own choice precedes that of its repository, and the configured agent comes last. */
export function providerFor(
  run: Pick<Run, 'agent'>,
  mapping: RepoMapping,
  { agent }: ServiceConfig,
): AgentProvider {
  return run.agent?.provider ?? mapping.agent ?? agent.provider
}
