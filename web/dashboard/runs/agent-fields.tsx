/** The fields in which a person chooses the agent, effort and model of one run. */
import { type Signal, useSignal } from '@preact/signals'
import { productName } from '../../../client/agent-names.ts'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { RunAgentChoice } from '../../../protocol/run.ts'
import { agentOfRepo } from '../../../protocol/run-agent.ts'
import { bound, SelectField, TextField } from '../../elements/field.tsx'
import { config } from '../state/records.ts'

export interface AgentSelection {
  readonly provider: Signal<string>
  readonly model: Signal<string>
  readonly effort: Signal<string>
}

const EFFORTS = ['low', 'medium', 'high'] as const

export const useAgentSelection = (): AgentSelection => ({
  provider: useSignal(''),
  model: useSignal(''),
  effort: useSignal(''),
})

/** Only what differs from the configuration. */
export function choiceOf({ provider, model, effort }: AgentSelection): RunAgentChoice {
  const agent = Object.values(AGENTS).find((each) => each.provider === provider.value)?.provider
  const level = EFFORTS.find((each) => each === effort.value)
  return {
    ...(agent === undefined ? {} : { provider: agent }),
    ...(model.value.trim() === '' ? {} : { model: model.value.trim() }),
    ...(level === undefined ? {} : { effort: level }),
  }
}

/** The agent of a new run or a retry, unless a person chooses one. */
export function usualAgent(repo: string | undefined, chosen?: RunAgentChoice): string {
  if (config.value === undefined) return 'As configured'
  return productName(chosen?.provider ?? agentOfRepo(repo, config.value))
}

interface AgentFieldsProps {
  readonly selection: AgentSelection
  /** The agent that works when nobody chooses one. */
  readonly usual: string
}

export function AgentFields({ selection, usual }: AgentFieldsProps) {
  const agent = config.value?.agent
  return (
    <>
      <div class="field-row">
        <SelectField
          label="Agent"
          {...bound(selection.provider)}
          options={[
            ['', usual],
            ...Object.values(AGENTS).map((each) => [each.provider, each.productName] as const),
          ]}
        />
        <SelectField
          label="Effort"
          {...bound(selection.effort)}
          options={[
            ['', `As configured (${agent?.orchestratorEffort ?? 'medium'})`],
            ...EFFORTS.map((each) => [each, each] as const),
          ]}
        />
      </div>
      <TextField
        label="Model"
        hint="Empty: the configured one, or the agent’s own."
        placeholder={agent?.orchestratorModel ?? ''}
        {...bound(selection.model)}
      />
    </>
  )
}
